package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

type etcdClient struct{ to *clientv3.Client }

func newEtcd(c *config, number int) (client, error) {
	endpoint := "http://" + c.addrs[number%len(c.addrs)]
	to, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, DialTimeout: 2 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		return nil, err
	}
	return &etcdClient{to: to}, nil
}

func puts(keys [2]string, value []byte) []clientv3.Op {
	return []clientv3.Op{clientv3.OpPut(keys[0], string(value)), clientv3.OpPut(keys[1], string(value))}
}

func gets(keys [2]string) []clientv3.Op {
	return []clientv3.Op{clientv3.OpGet(keys[0]), clientv3.OpGet(keys[1])}
}

func (c *etcdClient) put(ctx context.Context, keys [2]string, value []byte) error {
	_, err := c.to.Txn(ctx).Then(puts(keys, value)...).Commit()
	return err
}

func (c *etcdClient) get(ctx context.Context, keys [2]string) (int, error) {
	answer, err := c.to.Txn(ctx).Then(gets(keys)...).Commit()
	if err != nil {
		return 0, err
	}
	found := 0
	for _, part := range answer.Responses {
		found += len(part.GetResponseRange().Kvs)
	}
	return found, nil
}

func (c *etcdClient) cas(ctx context.Context, keys [2]string, value []byte) error {
	seen, err := c.to.Txn(ctx).Then(gets(keys)...).Commit()
	if err != nil {
		return err
	}
	var same []clientv3.Cmp
	for i, part := range seen.Responses {
		// A key that is not there has revision 0, also for the comparison.
		revision := int64(0)
		if found := part.GetResponseRange().Kvs; len(found) > 0 {
			revision = found[0].ModRevision
		}
		same = append(same, clientv3.Compare(clientv3.ModRevision(keys[i]), "=", revision))
	}
	answer, err := c.to.Txn(ctx).If(same...).Then(puts(keys, value)...).Commit()
	if err == nil && !answer.Succeeded {
		err = errConflict
	}
	return err
}

func (c *etcdClient) read(context.Context, string) (int, error) {
	return 0, errors.New("not measured here")
}

func (c *etcdClient) close() { _ = c.to.Close() }
