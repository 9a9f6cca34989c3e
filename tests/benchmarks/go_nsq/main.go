// go-nsq, as one of the measured programs: it reads a task as JSON from its argument, and prints the result.
// See ../clients/task.py and ../clients/meter.py, which say what the fields mean.
package main

import (
	"encoding/json"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nsqio/go-nsq"
)

type task struct {
	Kind             string   `json:"kind"`
	Nsqds            []string `json:"nsqds"`
	Topic            string   `json:"topic"`
	Channel          string   `json:"channel"`
	WarmUp           int64    `json:"warm_up"`
	Timed            int64    `json:"timed"`
	Surplus          int64    `json:"surplus"`
	Size             int      `json:"size"`
	MaxInFlight      int      `json:"max_in_flight"`
	Concurrency      int      `json:"concurrency"`
	Batch            int      `json:"batch"`
	Rate             int      `json:"rate"`
	Connections      int      `json:"connections"`
	CAFile           string   `json:"ca_file"`
	Compression      string   `json:"compression"`
	OutputBufferSize int64    `json:"output_buffer_size"`
	Started          int64    `json:"started"`
}

func (t *task) messages() int64 { return t.WarmUp + t.Timed + t.Surplus }

// Handlers a consumer runs, whatever the Python clients use: more of them are slower on two cores.
const handlers = 2

func main() {
	var t task
	check(json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &t))
	work := map[string]func(*task){"consume": consume, "publish": publish, "latency": latency, "idle": idle}
	work[t.Kind](&t)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// consume takes messages, and finishes each by returning from the handler.
func consume(t *task) {
	m := newMeter(t)
	consumer := newConsumer(t, handlers, func(*nsq.Message) { m.count(1) })
	check(consumer.ConnectToNSQDs(t.Nsqds))
	<-m.done
	stop(consumer)
	m.report(nil)
}

// publish runs goroutines, each of which waits for nsqd's OK before its next.
func publish(t *task) {
	m := newMeter(t)
	producer := newProducer(t)
	body := make([]byte, t.Size)
	bodies := make([][]byte, t.Batch)
	for i := range bodies {
		bodies[i] = body
	}
	run := func(messages int64) {
		var wait sync.WaitGroup
		var left atomic.Int64
		left.Store(messages / int64(t.Batch))
		wait.Add(t.Concurrency)
		for range t.Concurrency {
			go func() {
				defer wait.Done()
				for left.Add(-1) >= 0 {
					if t.Batch == 1 {
						check(producer.Publish(t.Topic, body))
					} else {
						check(producer.MultiPublish(t.Topic, bodies))
					}
				}
			}()
		}
		wait.Wait()
		m.count(messages)
	}
	run(t.WarmUp)
	run(t.Timed)
	producer.Stop()
	m.report(nil)
}

// latency publishes at a steady rate, and consumes in the same process.
func latency(t *task) {
	m := newMeter(t)
	taken := newLatencies(t)
	consumer := newConsumer(t, handlers, func(message *nsq.Message) {
		taken.add(message.Body)
		m.count(1)
	})
	check(consumer.ConnectToNSQDs(t.Nsqds))
	producer := newProducer(t)
	begin := time.Now()
	for number := range t.messages() {
		time.Sleep(time.Until(begin.Add(time.Duration(number) * time.Second / time.Duration(t.Rate))))
		check(producer.Publish(t.Topic, stamped(t.Size)))
	}
	<-m.done
	producer.Stop()
	stop(consumer)
	m.report(taken.percentiles())
}

// idle keeps connections, and does nothing. go-nsq connects once to an address, so each has its consumer.
func idle(t *task) {
	m := newMeter(t)
	consumers := make([]*nsq.Consumer, t.Connections)
	for i := range consumers {
		consumers[i] = newConsumer(t, 1, func(*nsq.Message) {})
		check(consumers[i].ConnectToNSQDs(t.Nsqds))
	}
	time.Sleep(time.Second)
	m.count(t.WarmUp)
	time.Sleep(time.Duration(t.Timed) * time.Millisecond)
	m.count(t.Timed)
	for _, consumer := range consumers {
		stop(consumer)
	}
	m.report(nil)
}

func newConsumer(t *task, handlers int, handle func(*nsq.Message)) *nsq.Consumer {
	consumer, err := nsq.NewConsumer(t.Topic, t.Channel, newConfig(t))
	check(err)
	consumer.SetLoggerLevel(nsq.LogLevelError)
	consumer.AddConcurrentHandlers(nsq.HandlerFunc(func(message *nsq.Message) error {
		handle(message)
		return nil
	}), handlers)
	return consumer
}

func newProducer(t *task) *nsq.Producer {
	producer, err := nsq.NewProducer(t.Nsqds[0], newConfig(t))
	check(err)
	producer.SetLoggerLevel(nsq.LogLevelError)
	check(producer.Ping())
	return producer
}

func stop(consumer *nsq.Consumer) {
	consumer.Stop()
	<-consumer.StopChan
}

func newConfig(t *task) *nsq.Config {
	config := nsq.NewConfig()
	config.MaxInFlight = t.MaxInFlight
	config.Snappy = t.Compression == "snappy"
	config.Deflate = t.Compression == "deflate"
	if t.OutputBufferSize != 0 {
		config.OutputBufferSize = t.OutputBufferSize
	}
	if t.CAFile != "" {
		config.TlsV1 = true
		config.TlsConfig = tlsConfig(t.CAFile)
	}
	check(config.Validate())
	return config
}
