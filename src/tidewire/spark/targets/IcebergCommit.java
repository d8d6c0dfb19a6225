package tidewire;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.ContentFileParser;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.JsonNode;
import org.apache.iceberg.shaded.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.iceberg.util.JsonUtil;

/**
 * What a commit asks of Iceberg, in one call each: a call from Python takes longer than most of what it asks for.
 *
 * Changes of files are documents: "base" is the snapshot whose files were searched, "searched" are the data files that
 * must still be there, "summary" has entries for the summary of the new snapshot. The other lists have files, each
 * described as ContentFileParser takes it: "addRows", "removeRows", "addDeletes" and "removeDeletes".
 */
public class IcebergCommit {
    private static final String OWN = "tidewire.";

    /** What a table's metadata says of its version, and the entries of properties and summary that are tidewire's. */
    public String facts(TableMetadata state) {
        ObjectNode found = JsonUtil.mapper().createObjectNode();
        found.put("uuid", state.uuid());
        found.put("format", state.formatVersion());
        found.put("schema", state.currentSchemaId());
        putOwn(found.putObject("properties"), state.properties());
        Snapshot current = state.currentSnapshot();
        if (current != null) {
            ObjectNode snapshot = found.putObject("snapshot");
            snapshot.put("id", current.snapshotId());
            snapshot.put("parent", current.parentId());
            snapshot.put("schema", current.schemaId());
            putOwn(snapshot.putObject("summary"), current.summary());
        }
        return found.toString();
    }

    /** Changes rows in a transaction; the id of the snapshot, its first row id and its sequence number. */
    public String changeRows(BaseTransaction transaction, String document) throws IOException {
        JsonNode change = JsonUtil.mapper().readTree(document);
        RowDelta update = transaction.newRowDelta().validateDeletedFiles();
        if (change.has("base")) {
            update.validateFromSnapshot(base(change)).validateDataFilesExist(texts(change, "searched"));
        }
        List added = files(transaction, change, "addRows");
        for (int at = 0; at < added.size(); at++) {
            update.addRows((DataFile) added.get(at));
        }
        List dead = files(transaction, change, "addDeletes");
        for (int at = 0; at < dead.size(); at++) {
            update.addDeletes((DeleteFile) dead.get(at));
        }
        List replaced = files(transaction, change, "removeDeletes");
        for (int at = 0; at < replaced.size(); at++) {
            update.removeDeletes((DeleteFile) replaced.get(at));
        }
        List removed = files(transaction, change, "removeRows");
        for (int at = 0; at < removed.size(); at++) {
            update.removeRows((DataFile) removed.get(at));
        }
        return committed(transaction, update, change);
    }

    /** Replaces files by others with the same rows in a transaction; the same facts of the snapshot. */
    public String replaceFiles(BaseTransaction transaction, String document) throws IOException {
        JsonNode change = JsonUtil.mapper().readTree(document);
        RewriteFiles update = transaction.newRewrite().validateFromSnapshot(base(change));
        List removed = files(transaction, change, "removeRows");
        for (int at = 0; at < removed.size(); at++) {
            update.deleteFile((DataFile) removed.get(at));
        }
        List dead = files(transaction, change, "removeDeletes");
        for (int at = 0; at < dead.size(); at++) {
            update.deleteFile((DeleteFile) dead.get(at));
        }
        List added = files(transaction, change, "addRows");
        for (int at = 0; at < added.size(); at++) {
            update.addFile((DataFile) added.get(at));
        }
        return committed(transaction, update, change);
    }

    private static List files(BaseTransaction transaction, JsonNode change, String name) throws IOException {
        Map specs = transaction.table().specs();
        List found = new ArrayList();
        for (Iterator all = texts(change, name).iterator(); all.hasNext();) {
            found.add(ContentFileParser.fromJson(JsonUtil.mapper().readTree((String) all.next()), specs));
        }
        return found;
    }

    private static long base(JsonNode change) {
        return ((JsonNode) change.get("base")).asLong(); // the compiler takes what get gives for a TreeNode
    }

    private static List texts(JsonNode change, String name) {
        List found = new ArrayList();
        for (Iterator all = ((JsonNode) change.get(name)).elements(); all.hasNext();) {
            found.add(((JsonNode) all.next()).asText());
        }
        return found;
    }

    private static String committed(BaseTransaction transaction, SnapshotUpdate update, JsonNode change) {
        for (Iterator all = ((JsonNode) change.get("summary")).fields(); all.hasNext();) {
            Map.Entry each = (Map.Entry) all.next();
            update.set((String) each.getKey(), ((JsonNode) each.getValue()).asText());
        }
        update.commit();
        Snapshot made = transaction.currentMetadata().currentSnapshot();
        ObjectNode found = JsonUtil.mapper().createObjectNode();
        found.put("id", made.snapshotId());
        found.put("first", made.firstRowId());
        found.put("sequence", made.sequenceNumber());
        return found.toString();
    }

    private static void putOwn(ObjectNode found, Map entries) {
        for (Iterator all = entries.entrySet().iterator(); all.hasNext();) {
            Map.Entry each = (Map.Entry) all.next();
            if (((String) each.getKey()).startsWith(OWN)) {
                found.put((String) each.getKey(), (String) each.getValue());
            }
        }
    }
}
