package firstnan;

import com.networknt.schema.Schema;
import com.networknt.schema.SchemaLocation;
import com.networknt.schema.SchemaRegistry;
import com.networknt.schema.SpecificationVersion;
import dev.cel.bundle.Cel;
import dev.cel.bundle.CelFactory;
import dev.cel.common.types.SimpleType;
import dev.cel.common.values.NullValue;
import dev.cel.runtime.CelEvaluationException;
import dev.cel.runtime.CelRuntime;
import firstnan.Canonical.Profile;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import tools.jackson.core.JacksonException;
import tools.jackson.core.StreamReadConstraints;
import tools.jackson.core.json.JsonFactory;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/**
 * Runs every vector through networknt's validator, dev.cel and Canonical; one JSON line a vector (see ../run.py).
 * Usage: Conform BUNDLE VECTORS...
 */
public final class Conform {
    private record Rule(String path, String when, CelRuntime.Program program) {}

    private record Integers(String path, String when, String member) {}

    private record Kind(Schema schema, Profile profile, List<Rule> rules, List<Integers> integers) {}

    /** Jackson alone stops at numbers of 1,000 digits. */
    private static final JsonMapper JACKSON = JsonMapper.builder(JsonFactory.builder()
                    .streamReadConstraints(StreamReadConstraints.builder().maxNumberLength(1 << 16).build())
                    .build())
            .build();
    private static final PrintStream OUT =
            new PrintStream(new BufferedOutputStream(System.out, 1 << 16), false, StandardCharsets.UTF_8);
    private final Map<String, Kind> kinds = new HashMap<>();

    private Conform(Path path) throws Exception {
        JsonNode bundle = JACKSON.readTree(Files.readAllBytes(path));
        Map<String, String> schemas = new HashMap<>();
        bundle.get("$defs").forEach(schema -> schemas.put(schema.get("$id").asString(), schema.toString()));
        SchemaRegistry registry =
                SchemaRegistry.withDefaultDialect(SpecificationVersion.DRAFT_2020_12, builder -> builder.schemas(schemas));
        Cel cel = CelFactory.standardCelBuilder().addVar("self", SimpleType.DYN).build();
        Schema meta = registry.getSchema(SchemaLocation.of(bundle.at("/$defs/meta/$id").asString()));
        for (Map.Entry<String, JsonNode> entry : bundle.get("x-firstnan-kinds").properties()) {
            JsonNode kind = entry.getValue();
            List<Rule> rules = new ArrayList<>();
            for (JsonNode rule : kind.get("rules")) {
                CelRuntime.Program program = cel.createProgram(cel.compile(rule.get("rule").asString()).getAst());
                rules.add(new Rule(rule.get("path").asString(), rule.path("when").asString(""), program));
            }
            List<Integers> integers = new ArrayList<>();
            for (JsonNode of : kind.get("integers")) {
                integers.add(new Integers(
                        of.get("path").asString(), of.path("when").asString(""), of.get("member").asString()));
            }
            Schema schema = registry.getSchema(SchemaLocation.of(kind.get("schema").asString()));
            Profile profile = Profile.valueOf(kind.get("profile").asString().toUpperCase());
            kinds.put(entry.getKey(), new Kind(schema, profile, rules, integers));
            boolean sound = meta.validate(bundle.get("$defs").get(entry.getKey())).isEmpty();
            print("schema/" + entry.getKey(), sound, null, null, null, null);
        }
    }

    private static void print(String vector, Boolean shape, Boolean rule, Boolean valid, String bytes, String identity) {
        OUT.printf("{\"vector\":\"%s\",\"shape\":%s,\"rule\":%s,\"valid\":%s,\"bytes\":%s,\"identity\":%s}%n",
                vector, shape, rule, valid, quoted(bytes), quoted(identity));
    }

    private static String quoted(String text) {
        return text == null ? "null" : '"' + text + '"';
    }

    /** CEL has 64-bit integers, and a null of its own. */
    private static Object plain(Object value) {
        if (value == null) {
            return NullValue.NULL_VALUE;
        } else if (value instanceof BigInteger integer) {
            return integer.bitLength() < 64 ? (Object) integer.longValue() : (Object) integer.doubleValue();
        } else if (value instanceof List<?> list) {
            return list.stream().map(Conform::plain).toList();
        } else if (value instanceof Map<?, ?> members) {
            Map<String, Object> out = new HashMap<>();
            members.forEach((name, member) -> out.put((String) name, plain(member)));
            return out;
        }
        return value;
    }

    /** What stands at a path such as /stages/*, null left out. */
    private static List<Object> valuesAt(Object value, String path) {
        Stream<Object> found = Stream.of(value);
        for (String name : path.isEmpty() ? new String[0] : path.substring(1).split("/")) {
            found = found.flatMap(each ->
                    name.equals("*") ? ((List<?>) each).stream() : Stream.ofNullable(((Map<?, ?>) each).get(name)));
        }
        return found.filter(Objects::nonNull).collect(Collectors.toList());
    }

    /** The objects that a rule or an integer of the bundle is about. */
    private static List<Object> objects(Object value, String path, String when) {
        String[] tag = when.split("=");
        return valuesAt(value, path).stream()
                .filter(object -> when.isEmpty() || tag[1].equals(((Map<?, ?>) object).get(tag[0])))
                .toList();
    }

    private static boolean rulesHold(Kind kind, Object value) {
        for (Rule rule : kind.rules) {
            for (Object self : objects(value, rule.path, rule.when)) {
                try {
                    if (!Boolean.TRUE.equals(rule.program.eval(Map.of("self", plain(self))))) {
                        return false;
                    }
                } catch (CelEvaluationException error) {
                    return false;
                }
            }
        }
        return true;
    }

    /** JSON Schema takes 5.0 for an integer; the contract does not. */
    private static boolean integersAreIntegers(Kind kind, Object value) {
        return kind.integers.stream().allMatch(of -> objects(value, of.path, of.when).stream()
                .flatMap(object -> valuesAt(object, of.member).stream())
                .allMatch(number -> number instanceof BigInteger));
    }

    /** Jackson takes bytes with a byte order mark, so it is given a String; of an empty one it makes a missing node. */
    private static JsonNode parsed(byte[] text) {
        try {
            String decoded = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(text)).toString();
            JsonNode node = JACKSON.readTree(decoded);
            return node.isMissingNode() ? null : node;
        } catch (CharacterCodingException | JacksonException error) {
            return null;
        }
    }

    /** The validator reads a float against an integer bound as a long, and throws where it is none: 1e19. */
    private static Boolean shape(Kind kind, byte[] text) {
        JsonNode node = parsed(text);
        try {
            return node == null ? null : kind.schema.validate(node).isEmpty();
        } catch (JacksonException error) {
            return false;
        }
    }

    /** The canonical bytes, or null where they are refused. */
    private static byte[] bytes(byte[] text, Profile profile, int maxBytes) {
        try {
            return Canonical.canonicalize(text, profile, maxBytes);
        } catch (Canonical.Refused refused) {
            return null;
        }
    }

    private void record(String vector, String name, byte[] text, boolean onWire) {
        Kind kind = kinds.get(name);
        Boolean shape = shape(kind, text);
        byte[] bytes = bytes(text, kind.profile, Canonical.MAX_BYTES);
        Boolean rule = null;
        boolean valid = false;
        Object value = null;
        if (Boolean.TRUE.equals(shape)) {
            try {
                value = Canonical.read(text, Profile.EVIDENCE);
                rule = rulesHold(kind, value);
                boolean right = rule && integersAreIntegers(kind, value) && Canonical.wellFormed(value);
                valid = right && bytes != null && (!onWire || Arrays.equals(bytes, text));
            } catch (Canonical.Refused refused) {
                rule = null;
            }
        }
        String digest = bytes == null ? null : Canonical.sha256(bytes);
        print(vector, shape, rule, valid, digest, valid ? identity(name, value, bytes) : null);
    }

    private String identity(String name, Object value, byte[] bytes) {
        if (kinds.get(name).profile == Profile.RECORD) {
            return Canonical.sha256(bytes);
        } else if (name.equals("training-incident-contract")) {
            return Canonical.contentId(name, bytes);
        } else if (name.equals("training-run-evidence")) {
            Map<Object, Object> members = new HashMap<>((Map<?, ?>) value);
            members.remove("evidence_content_id");
            return Canonical.contentId("training-incident-evidence", Canonical.write(members, Profile.EVIDENCE, 0));
        }
        return null;
    }

    private void run(String folder, String stem, int index, String line) {
        JsonNode vector = JACKSON.readTree(line);
        String id = folder + "/" + vector.path("case").asString(stem + "-" + index);
        if (folder.equals("kinds") || folder.equals("records")) {
            record(id, stem, utf8(vector.get("text")), false);
        } else if (folder.equals("wire")) {
            record(id, stem, HexFormat.of().parseHex(vector.get("hex").asString()), true);
        } else if (stem.equals("float64-text")) {
            double value = Double.longBitsToDouble(Long.parseUnsignedLong(vector.get("bits").asString(), 16));
            print(id, null, null, null, Canonical.sha256(Canonical.write(value, Profile.EVIDENCE, 0)), null);
        } else if (folder.equals("canonical")) {
            Profile profile = stem.equals("record-profile") ? Profile.RECORD : Profile.EVIDENCE;
            byte[] bytes = bytes(utf8(vector.get("text")), profile, vector.path("max_bytes").asInt(Canonical.MAX_BYTES));
            boolean named = bytes != null && profile == Profile.EVIDENCE && bytes[0] == '{';
            String digest = bytes == null ? null : Canonical.sha256(bytes);
            print(id, null, null, null, digest, named ? Canonical.contentId("vector", bytes) : null);
        } else if (folder.equals("triage")) {
            record(id + "/contract", "training-incident-contract", utf8(vector.get("contract")), false);
            record(id + "/evidence", "training-run-evidence", utf8(vector.get("evidence")), false);
            if (vector.has("report")) {
                record(id + "/report", "incident-report", JACKSON.writeValueAsBytes(vector.get("report")), false);
            }
        } else if (stem.equals("inventory-consensus")) {
            record(id + "/identity", "run-identity", JACKSON.writeValueAsBytes(vector.get("identity")), false);
            int i = 0;
            for (JsonNode inventory : vector.get("inventories")) {
                record(id + "/inventories/" + i++, "rank-inventory", JACKSON.writeValueAsBytes(inventory), false);
            }
        }
    }

    private static byte[] utf8(JsonNode text) {
        return text.asString().getBytes(StandardCharsets.UTF_8);
    }

    private static List<Path> vectorFiles(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return List.of();
        }
        try (Stream<Path> files = Files.list(folder)) {
            return files.filter(file -> file.toString().endsWith(".jsonl")).sorted().toList();
        }
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length < 2) {
            System.err.println("usage: Conform BUNDLE VECTORS...");
            System.exit(2);
        }
        Conform conform = new Conform(Path.of(arguments[0]));
        for (String root : Arrays.asList(arguments).subList(1, arguments.length)) {
            for (String folder : List.of("canonical", "kinds", "lifecycle", "records", "triage", "wire")) {
                for (Path file : vectorFiles(Path.of(root, folder))) {
                    int index = 0;
                    for (String line : Files.readAllLines(file)) {
                        conform.run(folder, file.getFileName().toString().replace(".jsonl", ""), index++, line);
                    }
                }
            }
        }
        OUT.flush();
    }
}
