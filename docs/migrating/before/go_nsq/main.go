package main

import (
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/nsqio/go-nsq"
)

const address = "127.0.0.1:4150"

type thumbnails struct{ answered sync.WaitGroup }

func (t *thumbnails) HandleMessage(message *nsq.Message) error {
	name := string(message.Body)
	if name == "broken.png" {
		return errors.New("broken") // requeue it
	}
	fmt.Println("made", name)
	t.answered.Done()
	return nil // finish it
}

func (t *thumbnails) LogFailedMessage(message *nsq.Message) {
	fmt.Println("gave up", string(message.Body))
	t.answered.Done()
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	config := nsq.NewConfig()
	config.MaxInFlight = 8
	config.MaxAttempts = 2
	config.DefaultRequeueDelay = 0

	producer, err := nsq.NewProducer(address, config)
	check(err)
	check(producer.Publish("thumbnails", []byte("cat.png")))
	check(producer.MultiPublish("thumbnails", [][]byte{[]byte("dog.png"), []byte("broken.png")}))
	check(producer.DeferredPublish("thumbnails", time.Second, []byte("late.png")))
	producer.Stop()

	consumer, err := nsq.NewConsumer("thumbnails", "worker", config)
	check(err)
	handler := &thumbnails{}
	handler.answered.Add(4)
	consumer.AddConcurrentHandlers(handler, 8)
	check(consumer.ConnectToNSQD(address))
	handler.answered.Wait()
	consumer.Stop()
	<-consumer.StopChan
}
