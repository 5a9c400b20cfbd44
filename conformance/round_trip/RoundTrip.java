import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import example.firstnan.Kinds;
import example.firstnan.Records;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/** Round trip of every valid vector through the records; one JSON line a vector. Usage: RoundTrip VECTORS */
public final class RoundTrip {
  public static void main(String[] arguments) throws Exception {
    JsonMapper mapper = new JsonMapper();
    PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    for (String line : Files.readAllLines(Path.of(arguments[0]))) {
      JsonNode each = mapper.readTree(line);
      Object record = Records.read(each.get("text").textValue(), Kinds.BY_NAME.get(each.get("kind").textValue()));
      out.println(mapper.writeValueAsString(Map.of("vector", each.get("vector").textValue(), "text", Records.write(record))));
    }
    out.flush();
  }
}
