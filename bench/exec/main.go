// Command exec measures transactions over two keys that lie in different buckets, at Quorate and at etcd, with the same
// keys and the same clients; and reads at leaders beside reads at copies.
//
// Closed loop: every client has one operation under way and begins the next as soon as the last one ends. Prints one JSON
// line for each measured point, with the names that the peers' load generator uses, so that figures stand beside each other.
// The keys are those that it loads: user00000000 and so on.
//
//	put   two writes:  MULTI, SET, SET, EXEC in one packet; a Txn with two Puts
//	get   two reads:   MULTI, GET, GET, EXEC in one packet; a Txn with two Gets
//	cas   two writes if neither key has changed since it was looked at, two round trips:
//	      QUORATE VERSIONS, then QUORATE TXN; a Txn with two Gets, then one with two comparisons and two Puts
//	read  one key (Quorate alone)
//
// Where Quorate is asked (-route): "first", the leader of the first key's bucket; "spread", client i at node i, as with etcd;
// "copies", the same after READONLY, so that copies answer reads.
package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// errConflict says that somebody else changed a key in between: nothing was written, and it counts for nothing.
var errConflict = errors.New("conflict")

// client is used by one goroutine only.
type client interface {
	put(ctx context.Context, keys [2]string, value []byte) error
	// get returns how many of the keys it found.
	get(ctx context.Context, keys [2]string) (int, error)
	cas(ctx context.Context, keys [2]string, value []byte) error
	read(ctx context.Context, key string) (int, error)
	close()
}

type config struct {
	sys, label, mode, workload, route string
	addrs                             []string
	pids                              []int
	clients, valueBytes, keys         int
	buckets                           int
	warm, dur, timeout                time.Duration
}

// point is one line; the names are those of the peers' load generator.
type point struct {
	Kind     string    `json:"kind"`
	Label    string    `json:"label"`
	Mode     string    `json:"mode"`
	Route    string    `json:"route,omitempty"`
	Nodes    int       `json:"nodes"`
	Buckets  int       `json:"buckets"`
	Workload string    `json:"workload"`
	Clients  int       `json:"clients"`
	Value    int       `json:"value"`
	Seconds  float64   `json:"seconds"`
	Ops      int64     `json:"ops"`
	OpsSec   float64   `json:"ops_s"`
	Errors   int64     `json:"errors"`
	Misses   int64     `json:"misses"`
	FirstErr string    `json:"first_err,omitempty"`
	P50      int64     `json:"p50_us"`
	P99      int64     `json:"p99_us"`
	Max      int64     `json:"max_us"`
	SrvCPU   float64   `json:"server_cpu_s"`
	CPUPerK  float64   `json:"server_cpu_s_per_1000"`
	NodeCPU  []float64 `json:"node_cpu_s"`
	GenCPU   float64   `json:"generator_cpu_s"`
}

func main() {
	var c config
	var addrs, pids string
	flag.StringVar(&c.sys, "sys", "quorate", "quorate | etcd")
	flag.StringVar(&c.label, "label", "", "name of the system in the output")
	flag.StringVar(&c.mode, "mode", "", "durability mode, for the output only")
	flag.StringVar(&c.workload, "w", "put", "put | get | cas | read")
	flag.StringVar(&c.route, "route", "first", "quorate: first | spread | copies")
	flag.StringVar(&addrs, "addrs", "127.0.0.1:6380", "comma-separated host:port, one per node; Quorate: doors of the cluster view")
	flag.StringVar(&pids, "pids", "", "comma-separated server pids, same order as -addrs")
	flag.IntVar(&c.clients, "c", 64, "closed-loop clients")
	flag.IntVar(&c.valueBytes, "v", 100, "value bytes")
	flag.IntVar(&c.keys, "keys", 20000, "key count")
	flag.IntVar(&c.buckets, "buckets", 6, "buckets; both keys of a pair lie in different ones, also where the system has none")
	flag.DurationVar(&c.warm, "warm", time.Second, "warm-up")
	flag.DurationVar(&c.dur, "dur", 4*time.Second, "measured time")
	flag.DurationVar(&c.timeout, "timeout", 10*time.Second, "per operation")
	flag.Parse()
	c.addrs = strings.Split(addrs, ",")
	for _, p := range strings.Split(pids, ",") {
		if n, err := strconv.Atoi(p); err == nil {
			c.pids = append(c.pids, n)
			if err := syscall.Kill(n, 0); err != nil {
				fatal(fmt.Errorf("server %d does not run: %w", n, err))
			}
		}
	}
	if c.label == "" {
		c.label = c.sys
	}
	fatal(run(&c))
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "exec:", err)
		os.Exit(1)
	}
}

// open returns a function that makes client i.
func open(c *config) (func(i int) (client, error), error) {
	switch c.workload {
	case "put", "get", "cas", "read":
	default:
		return nil, errors.New("unknown -w " + c.workload)
	}
	switch c.sys {
	case "etcd":
		if c.workload == "read" {
			return nil, errors.New("-w read is for Quorate: the peers' load generator reads from etcd")
		}
		c.route = ""
		return func(i int) (client, error) { return newEtcd(c, i) }, nil
	case "quorate":
		leaders, err := leadersOf(c)
		if err != nil {
			return nil, err
		}
		return func(i int) (client, error) { return newResp(c, leaders, i) }, nil
	}
	return nil, errors.New("unknown -sys " + c.sys)
}

func keyName(i int) string { return fmt.Sprintf("user%08d", i) }

// pair draws two keys of different buckets.
func pair(c *config, rng *rand.Rand) [2]string {
	first := keyName(rng.IntN(c.keys))
	for {
		second := keyName(rng.IntN(c.keys))
		if second != first && (c.buckets < 2 || bucketOf(second, c.buckets) != bucketOf(first, c.buckets)) {
			return [2]string{first, second}
		}
	}
}

// tally is what one client has seen in the measured time.
type tally struct {
	hist           *hdrhistogram.Histogram
	errors, misses int64
	first          error
}

func run(c *config) error {
	ctx, cancel := context.WithTimeout(context.Background(), c.warm+c.dur+60*time.Second)
	defer cancel()
	dial, err := open(c)
	if err != nil {
		return err
	}
	clients := make([]client, c.clients)
	for i := range clients {
		if clients[i], err = dial(i); err != nil {
			return err
		}
		defer clients[i].close()
	}
	var phase atomic.Int32 // 0 warm-up, 1 measured, 2 over
	tallies := make([]tally, len(clients))
	var wg sync.WaitGroup
	for i, cl := range clients {
		tallies[i].hist = newHist()
		wg.Go(func() { loop(ctx, c, cl, i, &phase, &tallies[i]) })
	}
	time.Sleep(c.warm)
	before, own := cpuOf(c.pids), selfCPU()
	begin := time.Now()
	phase.Store(1)
	time.Sleep(c.dur)
	phase.Store(2)
	seconds := time.Since(begin).Seconds()
	after, ownAfter := cpuOf(c.pids), selfCPU()
	wg.Wait()

	all := newHist()
	p := point{Kind: "point", Label: c.label, Mode: c.mode, Route: c.route, Nodes: len(c.addrs), Buckets: c.buckets,
		Workload: c.workload, Clients: c.clients, Value: c.valueBytes, Seconds: seconds, GenCPU: ownAfter - own}
	for i := range tallies {
		all.Merge(tallies[i].hist)
		p.Errors += tallies[i].errors
		p.Misses += tallies[i].misses
		if p.FirstErr == "" && tallies[i].first != nil {
			p.FirstErr = tallies[i].first.Error()
		}
	}
	for i := range after {
		p.NodeCPU = append(p.NodeCPU, after[i]-before[i])
		p.SrvCPU += after[i] - before[i]
	}
	p.Ops, p.OpsSec = all.TotalCount(), float64(all.TotalCount())/seconds
	p.P50, p.P99, p.Max = all.ValueAtQuantile(50), all.ValueAtQuantile(99), all.Max()
	if p.Ops > 0 {
		p.CPUPerK = p.SrvCPU / float64(p.Ops) * 1000
	}
	return json.NewEncoder(os.Stdout).Encode(p)
}

func newHist() *hdrhistogram.Histogram { return hdrhistogram.New(1, 60_000_000, 3) }

// loop is the life of one client. The same client draws the same keys whatever system it asks.
func loop(ctx context.Context, c *config, cl client, number int, phase *atomic.Int32, seen *tally) {
	value := make([]byte, c.valueBytes)
	rng := rand.New(rand.NewPCG(uint64(number)+1, 12345))
	for sequence := uint64(0); phase.Load() != 2; sequence++ {
		began := phase.Load()
		for i := 0; i+8 <= len(value); i += 8 {
			binary.LittleEndian.PutUint64(value[i:], sequence<<16|uint64(number))
		}
		keys := pair(c, rng)
		octx, cancel := context.WithTimeout(ctx, c.timeout)
		start := time.Now()
		found, wanted := 0, 0
		var err error
		switch c.workload {
		case "put":
			err = cl.put(octx, keys, value)
		case "get":
			wanted = 2
			found, err = cl.get(octx, keys)
		case "cas":
			err = cl.cas(octx, keys, value)
		case "read":
			wanted = 1
			found, err = cl.read(octx, keys[0])
		}
		took := time.Since(start)
		cancel()
		if began != 1 || phase.Load() != 1 {
			continue
		}
		switch {
		case errors.Is(err, errConflict):
			seen.misses++
			continue
		case err != nil:
			seen.errors++
			if seen.first == nil {
				seen.first = err
			}
			time.Sleep(time.Millisecond)
			continue
		case found != wanted:
			seen.misses++
		}
		_ = seen.hist.RecordValue(max(took.Microseconds(), 1))
	}
}
