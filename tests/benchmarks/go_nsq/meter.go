package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// start is what readings of the monotonic clock are relative to.
var start = time.Now()

// meter counts messages; its clock runs from the end of the warm-up to the last timed message.
type meter struct {
	task         *task
	counted      atomic.Int64
	marks        [2]mark
	firstMessage float64
	done         chan struct{}
}

type mark struct {
	at, cpu float64
	rss     int64
}

func newMeter(t *task) *meter { return &meter{task: t, done: make(chan struct{})} }

// count adds messages, from any goroutine.
func (m *meter) count(messages int64) {
	counted := m.counted.Add(messages)
	if counted == m.task.WarmUp {
		m.firstMessage = float64(time.Now().UnixNano()-m.task.Started) / 1e9
		m.marks[0] = now()
	}
	if counted == m.task.WarmUp+m.task.Timed {
		m.marks[1] = now()
	}
	if counted == m.task.messages() {
		close(m.done)
	}
}

func (m *meter) report(values map[string]float64) {
	all := map[string]float64{
		"rss_growth":            float64(m.marks[1].rss - m.marks[0].rss),
		"loading_seconds":       0,
		"first_message_seconds": m.firstMessage,
	}
	for name, value := range values {
		all[name] = value
	}
	check(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"messages":    m.counted.Load(),
		"timed":       m.task.Timed,
		"seconds":     m.marks[1].at - m.marks[0].at,
		"cpu_seconds": m.marks[1].cpu - m.marks[0].cpu,
		"peak_rss":    m.marks[1].rss,
		"values":      all,
	}))
}

func now() mark {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	cpu := time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	return mark{at: time.Since(start).Seconds(), cpu: cpu.Seconds(), rss: peakRSS(&usage)}
}

// peakRSS prefers VmHWM: on Linux ru_maxrss outlives exec, and still tells of the parent.
func peakRSS(usage *syscall.Rusage) int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return usage.Maxrss
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			check(err)
			return kilobytes * 1024
		}
	}
	return usage.Maxrss
}

// latencies of messages that carry the time of their publication.
type latencies struct {
	lock    sync.Mutex
	seconds []float64
	skipped int64
}

func newLatencies(t *task) *latencies {
	return &latencies{seconds: make([]float64, 0, t.messages()), skipped: t.WarmUp}
}

func stamped(size int) []byte {
	body := make([]byte, size)
	binary.BigEndian.PutUint64(body, uint64(time.Since(start)))
	return body
}

func (l *latencies) add(body []byte) {
	seconds := (time.Since(start) - time.Duration(binary.BigEndian.Uint64(body))).Seconds()
	l.lock.Lock()
	l.seconds = append(l.seconds, seconds)
	l.lock.Unlock()
}

func (l *latencies) percentiles() map[string]float64 {
	ordered := slices.Sorted(slices.Values(l.seconds[l.skipped:]))
	found := map[string]float64{}
	for name, part := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999} {
		found[name] = ordered[min(int(float64(len(ordered))*part), len(ordered)-1)]
	}
	return found
}

func tlsConfig(caFile string) *tls.Config {
	pem, err := os.ReadFile(caFile)
	check(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}
