// The client that the benchmarks compare with, pinned. `../go_program.py` builds it.
module nsq-anyio/tests/benchmarks/go_nsq

go 1.24

require github.com/nsqio/go-nsq v1.1.0

require github.com/golang/snappy v0.0.4 // indirect
