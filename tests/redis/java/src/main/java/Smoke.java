import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisCluster;
import redis.clients.jedis.Response;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;

/** Uses the cluster view the way Java applications do: JedisCluster. Arguments: HOST:PORT[,HOST:PORT...]. */
public final class Smoke {
  private static final int KEYS = 200;
  private static int failed = 0;
  private static int passed = 0;

  private interface Check {
    void run() throws Exception;
  }

  private static void expect(Object wanted, Object got) {
    if (!wanted.equals(got)) throw new AssertionError("got " + got + ", wanted " + wanted);
  }

  private static void check(String name, Check check) {
    try {
      check.run();
      passed++;
    } catch (Throwable problem) {
      failed++;
      System.out.println("  FAILED " + name + ": " + problem);
    }
  }

  public static void main(String[] arguments) {
    Set<HostAndPort> nodes = new HashSet<>();
    for (String address : arguments[0].split(",")) nodes.add(HostAndPort.from(address));
    try (JedisCluster db = new JedisCluster(nodes, 20_000)) {
      db.flushAll();
      check("single keys", () -> {
        for (int index = 0; index < KEYS; index++) expect("OK", db.set("key:" + index, "" + index));
        for (int index = 0; index < KEYS; index++) expect("" + index, db.get("key:" + index));
        expect(10L, db.incrBy("key:7", 3));
      });
      check("hash tags", () -> {
        expect("OK", db.mset("{user}a", "1", "{user}b", "2"));
        expect(List.of("1", "2"), db.mget("{user}a", "{user}b"));
      });
      check("pipelines", () -> {
        try (var pipe = db.pipelined()) {
          for (int index = 0; index < KEYS; index++) pipe.set("p" + index, "" + index);
          Response<String> last = pipe.get("p" + (KEYS - 1));
          pipe.sync();
          expect("" + (KEYS - 1), last.get());
        }
      });
      check("whole keyspace", () -> {
        long size = 0;
        Set<String> found = new HashSet<>();
        for (var node : db.getClusterNodes().entrySet()) {
          try (var connection = new redis.clients.jedis.Jedis(node.getValue().getResource())) {
            size += connection.dbSize();
            String cursor = ScanParams.SCAN_POINTER_START;
            do {
              ScanResult<String> step = connection.scan(cursor, new ScanParams().match("p*").count(50));
              found.addAll(step.getResult());
              cursor = step.getCursor();
            } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
          }
        }
        expect(KEYS, found.size());
        expect(2L * KEYS + 2, size);
      });
    }
    System.out.println("Jedis, cluster: " + passed + " passed, " + failed + " failed");
    System.exit(failed == 0 ? 0 : 1);
  }
}
