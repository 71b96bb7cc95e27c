// Uses a server the way node applications do: node-redis over strings, expiry, lists, pipelines and transactions.
//   node smoke.mjs HOST:PORT[,HOST:PORT...]
import assert from "node:assert/strict";
import { WatchError, createClient } from "redis";

const checks = {
  async strings(one, other) {
    assert.equal(await one.set("greeting", "hello"), "OK");
    assert.equal(await other.get("greeting"), "hello");
    assert.equal(await one.set("greeting", "x", { condition: "NX" }), null);
    await one.mSet({ a: "1", b: "2" });
    assert.deepEqual(await other.mGet(["a", "none", "b"]), ["1", null, "2"]);
    assert.equal(await other.incrBy("a", 41), 42);
    assert.equal(await one.getDel("a"), "42");
  },
  async expiry(one, other) {
    await one.set("brief", "x", { expiration: { type: "EX", value: 100 } });
    const left = await other.ttl("brief");
    assert.ok(left > 0 && left <= 100);
    assert.equal(await one.persist("brief"), 1);
    assert.equal(await other.ttl("brief"), -1);
  },
  async lists(one, other) {
    assert.equal(await one.rPush("queue", ["a", "b", "c"]), 3);
    assert.deepEqual(await other.lRange("queue", 0, -1), ["a", "b", "c"]);
    assert.equal(await other.lMove("queue", "done", "LEFT", "RIGHT"), "a");
    assert.deepEqual(await one.lPopCount("queue", 5), ["b", "c"]);
  },
  async pipeline(one, other) {
    // Commands issued in one tick share one write to the socket.
    await Promise.all(Array.from({ length: 200 }, (_, index) => one.set(`p${index}`, `${index}`)));
    assert.equal(await other.get("p199"), "199");
    const found = [];
    for await (const keys of other.scanIterator({ MATCH: "p1?", COUNT: 50 })) found.push(...keys);
    assert.equal(new Set(found).size, 10);
  },
  async transactions(one, other) {
    assert.deepEqual(await one.multi().set("n", "1").incr("n").exec(), ["OK", 2]);
    await one.watch("n");
    await other.set("n", "7");
    await assert.rejects(one.multi().set("n", "0").exec(), WatchError);
    assert.equal(await other.get("n"), "7");
  },
  async errors(one, other) {
    await one.rPush("list", "x");
    await assert.rejects(other.get("list"), /WRONGTYPE/);
    await assert.rejects(other.sendCommand(["NOSUCH", "x"]), /unknown command/);
    assert.equal(await other.ping(), "PONG");
  },
};

const nodes = (process.argv[2] ?? "").split(",");
if (!nodes[0]) {
  console.error("usage: node smoke.mjs HOST:PORT[,HOST:PORT...]");
  process.exit(2);
}
let passed = 0;
let failed = 0;
for (const RESP of [2, 3]) {
  const addresses = [nodes[0], nodes[nodes.length - 1]];
  const clients = addresses.map((address) => createClient({ url: `redis://${address}`, RESP, socket: { reconnectStrategy: false } }));
  for (const client of clients) client.on("error", (error) => console.error(`  ${error.message}`));
  await Promise.all(clients.map((client) => client.connect()));
  for (const [name, check] of Object.entries(checks)) {
    await clients[0].flushAll();
    try {
      await check(...clients);
      passed += 1;
    } catch (error) {
      failed += 1;
      console.log(`  FAILED ${name} over RESP${RESP}: ${error.message}`);
    }
  }
  await Promise.all(clients.map((client) => client.close()));
}
console.log(`node-redis: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
