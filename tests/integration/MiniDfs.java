import java.io.File;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/** HDFS for tests: {@code MiniDfs RPC_PORT HTTP_PORT FOLDER}, one name node and one data node. */
public class MiniDfs {
  public static void main(String[] arguments) throws Exception {
    Configuration settings = new Configuration();
    settings.set("hdfs.minidfs.basedir", arguments[2]);
    settings.set("dfs.namenode.rpc-bind-host", "127.0.0.1");
    settings.set("dfs.namenode.http-bind-host", "127.0.0.1");
    settings.set("dfs.permissions.enabled", "false");
    settings.set("dfs.replication", "1");
    settings.set("dfs.namenode.fs-limits.min-block-size", "1024");
    MiniDFSCluster cluster = new MiniDFSCluster.Builder(settings, new File(arguments[2]))
        .nameNodePort(Integer.parseInt(arguments[0]))
        .nameNodeHttpPort(Integer.parseInt(arguments[1]))
        .numDataNodes(1)
        .build();
    cluster.waitActive();
    System.out.println("ready");
    System.out.flush();
    Thread.currentThread().join();
  }
}
