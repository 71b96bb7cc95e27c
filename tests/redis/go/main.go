// Uses the cluster view the way Go applications do: ClusterClient of go-redis.
//
//	go run . HOST:PORT[,HOST:PORT...]
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const keys = 200

var ctx = context.Background()

func expect(got, wanted any, err error) error {
	if err != nil {
		return err
	}
	if fmt.Sprint(got) != fmt.Sprint(wanted) {
		return fmt.Errorf("got %v, wanted %v", got, wanted)
	}
	return nil
}

func singleKeys(db *redis.ClusterClient) error {
	for index := range keys {
		if err := db.Set(ctx, fmt.Sprintf("key:%d", index), index, 0).Err(); err != nil {
			return err
		}
	}
	for index := range keys {
		got, err := db.Get(ctx, fmt.Sprintf("key:%d", index)).Int()
		if err := expect(got, index, err); err != nil {
			return err
		}
	}
	return nil
}

func pipelines(db *redis.ClusterClient) error {
	replies, err := db.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for index := range keys {
			pipe.Set(ctx, fmt.Sprintf("p%d", index), index, 0)
			pipe.Get(ctx, fmt.Sprintf("p%d", index))
		}
		return nil
	})
	return expect(len(replies), 2*keys, err)
}

func transactions(db *redis.ClusterClient) error {
	replies, err := db.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{n}", 1, 0)
		pipe.Incr(ctx, "{n}")
		return nil
	})
	if err := expect(len(replies), 2, err); err != nil {
		return err
	}
	return db.Watch(ctx, func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { pipe.Incr(ctx, "{n}"); return nil })
		return err
	}, "{n}")
}

func hashTags(db *redis.ClusterClient) error {
	if err := db.MSet(ctx, "{user}a", 1, "{user}b", 2).Err(); err != nil {
		return err
	}
	got, err := db.MGet(ctx, "{user}a", "{user}b").Result()
	return expect(got, []any{"1", "2"}, err)
}

func wholeKeyspace(db *redis.ClusterClient) error {
	size, err := db.DBSize(ctx).Result()
	if err := expect(size, 2*keys+3, err); err != nil {
		return err
	}
	var found atomic.Int64
	err = db.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		all := node.Scan(ctx, 0, "p*", 50).Iterator()
		for all.Next(ctx) {
			found.Add(1)
		}
		return all.Err()
	})
	return expect(found.Load(), keys, err)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run . HOST:PORT[,HOST:PORT...]")
		os.Exit(2)
	}
	addresses := strings.Split(os.Args[1], ",")
	db := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ReadTimeout: 20 * time.Second})
	defer db.Close()
	checks := []struct {
		name string
		run  func(*redis.ClusterClient) error
	}{
		{"single keys", singleKeys}, {"pipelines", pipelines}, {"transactions", transactions},
		{"hash tags", hashTags}, {"whole keyspace", wholeKeyspace},
	}
	failed := 0
	if err := db.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return node.FlushAll(ctx).Err() }); err != nil {
		fmt.Println("  FAILED to begin:", err)
		os.Exit(1)
	}
	for _, check := range checks {
		if err := check.run(db); err != nil {
			failed++
			fmt.Printf("  FAILED %s: %v\n", check.name, err)
		}
	}
	fmt.Printf("go-redis %s, cluster: %d passed, %d failed\n", redis.Version(), len(checks)-failed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
