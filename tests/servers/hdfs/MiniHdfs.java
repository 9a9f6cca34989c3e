import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * HDFS in one process: `java -cp ... MiniHdfs.java DIRECTORY`.
 *
 * <p>It prints the URL of its namenode's WebHDFS, and ends when its standard input does.
 */
public class MiniHdfs {
  public static void main(String[] arguments) throws Exception {
    Configuration configuration = new Configuration();
    configuration.set("hdfs.minidfs.basedir", arguments[0]);
    configuration.set("dfs.namenode.fs-limits.min-block-size", "0");
    try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(configuration).numDataNodes(1).build()) {
      cluster.waitActive();
      cluster.getFileSystem().setPermission(new Path("/"), new FsPermission((short) 0777));
      System.out.println("webhdfs: " + cluster.getHttpUri(0));
      while (System.in.read() >= 0) {}
    }
  }
}
