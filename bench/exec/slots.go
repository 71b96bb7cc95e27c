package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const slotCount = 16384

// slotOf is the slot of a key as Redis Cluster has it (CRC16, XMODEM).
func slotOf(key string) int {
	if begin := strings.IndexByte(key, '{'); begin >= 0 {
		if length := strings.IndexByte(key[begin+1:], '}'); length > 0 {
			key = key[begin+1 : begin+1+length]
		}
	}
	crc := uint16(0)
	for i := 0; i < len(key); i++ {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % slotCount
}

// bucketOf is the bucket of a key where the slots are cut into so many. For etcd it only chooses the same keys.
func bucketOf(key string, buckets int) int { return slotOf(key) * buckets / slotCount }

// leadersOf asks Quorate who leads each bucket: a place in -addrs, in the order of the buckets. The program's own idea of
// slots and buckets must be the cluster's, or both keys of a pair might lie in one bucket.
func leadersOf(c *config) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	to, err := dialResp(c.addrs[0], 2*time.Second)
	if err != nil {
		return nil, err
	}
	defer to.to.Close()
	for _, key := range []string{keyName(0), keyName(c.keys - 1)} {
		to.add("CLUSTER", "KEYSLOT", key)
		answer, err := to.ask(ctx, 1)
		if err != nil {
			return nil, err
		}
		if told, _ := strconv.Atoi(string(answer.text)); told != slotOf(key) {
			return nil, fmt.Errorf("%s is in slot %d, not %d", key, told, slotOf(key))
		}
	}
	var why error
	for {
		to.add("CLUSTER", "SLOTS")
		answer, err := to.ask(ctx, 1)
		if err != nil {
			return nil, err
		}
		leaders, balanced, err := readSlots(c, answer)
		if err == nil && balanced {
			return leaders, nil
		}
		why = err
		select {
		case <-ctx.Done():
			if why == nil {
				// One node leads more than another: measured as it is.
				return leaders, nil
			}
			return nil, why
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// readSlots reads CLUSTER SLOTS. Whether the buckets are spread evenly over the nodes is told as well: shortly after a
// cluster was founded one node leads them all.
func readSlots(c *config, answer reply) ([]int, bool, error) {
	if len(answer.array) != c.buckets {
		return nil, false, fmt.Errorf("the cluster has %d buckets, not %d: see -buckets", len(answer.array), c.buckets)
	}
	leaders, led := make([]int, c.buckets), make([]int, len(c.addrs))
	for bucket, span := range answer.array {
		if len(span.array) < 3 || len(span.array[2].array) < 2 {
			return nil, false, errors.New("CLUSTER SLOTS told something else")
		}
		first, _ := strconv.Atoi(string(span.array[0].text))
		last, _ := strconv.Atoi(string(span.array[1].text))
		if first*c.buckets/slotCount != bucket || last*c.buckets/slotCount != bucket {
			return nil, false, fmt.Errorf("bucket %d has the slots %d to %d", bucket, first, last)
		}
		leader := span.array[2].array
		address := string(leader[0].text) + ":" + string(leader[1].text)
		leaders[bucket] = -1
		for place, known := range c.addrs {
			if known == address {
				leaders[bucket] = place
				led[place]++
			}
		}
		if leaders[bucket] < 0 {
			return nil, false, fmt.Errorf("%s leads a bucket and is not among -addrs", address)
		}
	}
	return leaders, slices.Max(led)-slices.Min(led) <= 1, nil
}
