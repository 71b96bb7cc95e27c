package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// reply is what a Redis server says: an error, an array (nil: there is none), or a text (nil: nil).
type reply struct {
	err   error
	array []reply
	text  []byte
}

// conn is a connection over which commands are sent in one packet and their replies read in order.
type conn struct {
	to  net.Conn
	in  *bufio.Reader
	out []byte
}

func dialResp(address string, timeout time.Duration) (*conn, error) {
	to, err := net.DialTimeout("tcp", address, timeout)
	if err != nil {
		return nil, err
	}
	return &conn{to: to, in: bufio.NewReaderSize(to, 16<<10)}, nil
}

// add puts a command into the packet.
func (c *conn) add(words ...string) {
	c.out = fmt.Appendf(c.out, "*%d\r\n", len(words))
	for _, word := range words {
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(word), word)
	}
}

// ask sends the packet and returns the last of so many replies, or the first error among them.
func (c *conn) ask(ctx context.Context, replies int) (reply, error) {
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.to.SetDeadline(deadline)
	}
	_, err := c.to.Write(c.out)
	c.out = c.out[:0]
	if err != nil {
		return reply{}, err
	}
	var last reply
	var refused error
	for range replies {
		if last, err = c.next(); err != nil {
			return reply{}, err
		}
		if refused == nil {
			refused = last.err
		}
	}
	return last, refused
}

func (c *conn) next() (reply, error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 {
		return reply{}, errors.New("a reply without words")
	}
	kind, words := line[0], line[1:len(line)-2]
	switch kind {
	case '+', ':':
		return reply{text: append([]byte{}, words...)}, nil
	case '-':
		return reply{err: errors.New(string(words))}, nil
	case '$', '*':
	default:
		return reply{}, fmt.Errorf("a reply that begins with %q", kind)
	}
	count, err := strconv.Atoi(string(words))
	if err != nil || count < 0 {
		return reply{}, err
	}
	if kind == '$' {
		text := make([]byte, count+2)
		_, err := io.ReadFull(c.in, text)
		return reply{text: text[:count]}, err
	}
	array := make([]reply, count)
	for i := range array {
		if array[i], err = c.next(); err != nil {
			return reply{}, err
		}
	}
	return reply{array: array}, nil
}

// respClient keeps a connection to each node that it has asked.
type respClient struct {
	c       *config
	leaders []int
	home    int
	nodes   []*conn
	// Names its transactions.
	origin   uint64
	sequence uint64
}

func newResp(c *config, leaders []int, number int) (client, error) {
	switch c.route {
	case "first", "spread", "copies":
	default:
		return nil, errors.New("unknown -route " + c.route)
	}
	if c.route == "copies" && (c.workload == "put" || c.workload == "cas") {
		return nil, errors.New("-route copies is for reads")
	}
	if c.workload == "read" && c.route == "spread" && c.buckets > 1 {
		return nil, errors.New("-w read goes to leaders (first) or copies: others would say MOVED")
	}
	home := number
	if c.route == "copies" {
		// A client alone is at a node that does not lead the first bucket.
		home += leaders[0] + 1
	}
	client := &respClient{c: c, leaders: leaders, home: home % len(c.addrs),
		nodes: make([]*conn, len(c.addrs)), origin: rand.Uint64()>>1 + 1}
	_, err := client.at("")
	return client, err
}

// at is the connection by which something about this key, first of all, goes.
func (r *respClient) at(key string) (*conn, error) {
	node := r.home
	if r.c.route == "first" && key != "" {
		node = r.leaders[bucketOf(key, r.c.buckets)]
	}
	if r.nodes[node] != nil {
		return r.nodes[node], nil
	}
	to, err := dialResp(r.c.addrs[node], 2*time.Second)
	if err != nil {
		return nil, err
	}
	if r.c.route == "copies" {
		to.add("READONLY")
		if _, err := to.ask(context.Background(), 1); err != nil {
			return nil, err
		}
	}
	r.nodes[node] = to
	return to, nil
}

// whole closes a connection on which it is not known any more which reply comes next.
func (r *respClient) whole(to *conn, err error) error {
	var broken net.Error
	if errors.As(err, &broken) || errors.Is(err, io.EOF) {
		for node := range r.nodes {
			if r.nodes[node] == to {
				_ = to.to.Close()
				r.nodes[node] = nil
			}
		}
	}
	return err
}

func (r *respClient) put(ctx context.Context, keys [2]string, value []byte) error {
	to, err := r.at(keys[0])
	if err != nil {
		return err
	}
	to.add("MULTI")
	to.add("SET", keys[0], string(value))
	to.add("SET", keys[1], string(value))
	to.add("EXEC")
	answer, err := to.ask(ctx, 4)
	if err == nil && len(answer.array) != 2 {
		err = errors.New("EXEC did not run")
	}
	return r.whole(to, err)
}

func (r *respClient) get(ctx context.Context, keys [2]string) (int, error) {
	to, err := r.at(keys[0])
	if err != nil {
		return 0, err
	}
	to.add("MULTI")
	to.add("GET", keys[0])
	to.add("GET", keys[1])
	to.add("EXEC")
	answer, err := to.ask(ctx, 4)
	found := 0
	for _, one := range answer.array {
		if one.text != nil {
			found++
		}
	}
	return found, r.whole(to, err)
}

func (r *respClient) cas(ctx context.Context, keys [2]string, value []byte) error {
	to, err := r.at(keys[0])
	if err != nil {
		return err
	}
	to.add("QUORATE", "VERSIONS", keys[0], keys[1])
	seen, err := to.ask(ctx, 1)
	if err == nil && len(seen.array) != 2 {
		err = errors.New("QUORATE VERSIONS told something else")
	}
	if err != nil {
		return r.whole(to, err)
	}
	r.sequence++
	number := func(number uint64) string { return strconv.FormatUint(number, 10) }
	to.add("QUORATE", "TXN", number(r.origin), number(r.sequence), number(uint64(time.Now().UnixMilli())), number(r.sequence),
		"2", keys[0], string(seen.array[0].text), keys[1], string(seen.array[1].text),
		"2", "3", "SET", keys[0], string(value), "3", "SET", keys[1], string(value))
	answer, err := to.ask(ctx, 1)
	if err == nil && answer.array == nil {
		err = errConflict
	}
	return r.whole(to, err)
}

func (r *respClient) read(ctx context.Context, key string) (int, error) {
	to, err := r.at(key)
	if err != nil {
		return 0, err
	}
	to.add("GET", key)
	answer, err := to.ask(ctx, 1)
	found := 0
	if answer.text != nil {
		found = 1
	}
	return found, r.whole(to, err)
}

func (r *respClient) close() {
	for _, node := range r.nodes {
		if node != nil {
			_ = node.to.Close()
		}
	}
}
