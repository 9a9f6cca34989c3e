// The HTTP server that commands are measured with: it accepts every request, counts, and tells the time.
//
// Usage: sink WARM_UP TIMED ALL. It prints where it listens, and "warm", "timed" and "all" with the seconds of
// its clock when so many requests have arrived. It ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

func main() {
	marks := map[int64]string{count(1): "warm", count(1) + count(2): "timed", count(3): "all"}
	start := time.Now()
	var arrived atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println("listening", listener.Addr())
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		check(err)
		os.Exit(0)
	}()
	check(http.Serve(listener, http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
		_, err := io.Copy(io.Discard, request.Body)
		check(err)
		if mark, ok := marks[arrived.Add(1)]; ok {
			fmt.Println(mark, time.Since(start).Seconds())
		}
	})))
}

// count returns a number of requests from the command line.
func count(place int) int64 {
	number, err := strconv.ParseInt(os.Args[place], 10, 64)
	check(err)
	return number
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
