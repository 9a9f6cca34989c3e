// A server that speaks Cloud Storage's XML API, for the tests of spools: `gcs BUCKET`.
//
// fake-gcs-server keeps the objects, and decides conditional puts under a lock. Of the XML API it lacks the
// plain put, which becomes here the upload of the JSON API that means the same.
//
// It prints the address that it listens on, and ends when its standard input does.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

const host = "127.0.0.1"

func main() {
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, PublicHost: host})
	if err != nil {
		log.Fatal(err)
	}
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: os.Args[1]})
	listener, err := net.Listen("tcp", host+":0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("gcs: http://%s\n", listener.Addr())
	go func() { log.Fatal(http.Serve(listener, translated(server.HTTPHandler()))) }()
	io.Copy(io.Discard, os.Stdin)
}

// translated makes an upload of a put, and an answer to a put of the answer to it.
func translated(storage http.Handler) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodPut {
			storage.ServeHTTP(writer, request)
			return
		}
		answer := httptest.NewRecorder()
		storage.ServeHTTP(answer, upload(request))
		if answer.Code == http.StatusOK {
			var made struct{ Etag, Generation string }
			if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil {
				log.Fatal(err)
			}
			writer.Header().Set("ETag", fmt.Sprintf("%q", made.Etag))
			writer.Header().Set("x-goog-generation", made.Generation)
		}
		writer.WriteHeader(answer.Code)
	})
}

func upload(put *http.Request) *http.Request {
	bucket, name, _ := strings.Cut(strings.TrimPrefix(put.URL.Path, "/"), "/")
	query := url.Values{"uploadType": {"media"}, "name": {name}}
	if condition := put.Header.Get("x-goog-if-generation-match"); condition != "" {
		query.Set("ifGenerationMatch", condition)
	}
	made := put.Clone(put.Context())
	made.Method = http.MethodPost
	made.URL = &url.URL{Path: "/upload/storage/v1/b/" + bucket + "/o", RawQuery: query.Encode()}
	made.RequestURI = made.URL.RequestURI()
	return made
}
