import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import example.firstnan.Kinds;
import example.firstnan.Records;
import firstnan.Canonical;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.Map;

/** Round trip of every valid vector through the records; one JSON line a vector (see ../round_trip.py). Usage: RoundTrip VECTORS */
public final class RoundTrip {
  public static void main(String[] arguments) throws Exception {
    JsonMapper mapper = new JsonMapper();
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      JsonNode each = mapper.readTree(line);
      Object record = Records.read(each.get("text").textValue(), Kinds.BY_NAME.get(each.get("kind").textValue()));
      Canonical.Profile profile = Canonical.Profile.valueOf(each.get("profile").textValue().toUpperCase(Locale.ROOT));
      byte[] written = Records.write(record).getBytes(StandardCharsets.UTF_8);
      String bytes = Canonical.sha256(Canonical.canonicalize(written, profile, Canonical.MAX_BYTES));
      out.println(mapper.writeValueAsString(Map.of("vector", each.get("vector").textValue(), "bytes", bytes)));
    }
    out.flush();
  }
}
