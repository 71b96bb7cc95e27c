package main

import (
	"bufio"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSlotsAreThoseOfRedis(t *testing.T) {
	for key, slot := range map[string]int{"foo": 12182, "bar": 5061, "": 0, "123456789": 0x31c3, "{foo}bar": 12182} {
		if slotOf(key) != slot {
			t.Errorf("%q is in slot %d, not %d", key, slotOf(key), slot)
		}
	}
	if slotOf("{}foo") == slotOf("{}bar") {
		t.Error("an empty tag is none")
	}
}

func TestPairsLieInTwoBuckets(t *testing.T) {
	c := &config{keys: 50, buckets: 6}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		keys := pair(c, rng)
		if bucketOf(keys[0], 6) == bucketOf(keys[1], 6) {
			t.Fatalf("%v", keys)
		}
	}
}

func TestRepliesAreRead(t *testing.T) {
	text := "+OK\r\n$-1\r\n*2\r\n$3\r\na\r\n\r\n:7\r\n*-1\r\n-ERR no\r\n"
	c := conn{in: bufio.NewReader(strings.NewReader(text))}
	var all []reply
	for range 5 {
		one, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if string(all[0].text) != "OK" || all[1].text != nil || all[3].array != nil || all[4].err == nil {
		t.Fatalf("%+v", all)
	}
	if two := all[2].array; len(two) != 2 || string(two[0].text) != "a\r\n" || string(two[1].text) != "7" {
		t.Fatalf("%+v", two)
	}
}
