package firstnan;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.math.RoundingMode;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Canonical bytes and identities of firstnan's records: a strict JSON reader and a writer with two profiles.
 *
 * <p>You may copy this file into your project: it needs nothing but Java 17 and stands under the Apache License 2.0
 * (SPDX-License-Identifier: Apache-2.0). What it does is written in docs/canonical.md of firstnan, and
 * {@code make conformance} holds it to every vector in schemas/vectors.
 *
 * <p>A value is null, a Boolean, a BigInteger, a Double, a String, a List or a Map sorted by code point. Double.toString
 * will not do for floats: before Java 19 it may give more digits than needed, and its layout is its own.
 */
public final class Canonical {
    /** The profiles: UTF-8 with integers only, and ASCII with floats. */
    public enum Profile {
        RECORD(16), EVIDENCE(256);

        final int maxDepth;

        Profile(int maxDepth) {
            this.maxDepth = maxDepth;
        }
    }

    /** The text or the value has no canonical bytes. */
    public static final class Refused extends RuntimeException {
        Refused(String message) {
            super(message);
        }
    }

    /** The bound of the record profile. */
    public static final int MAX_BYTES = 65536;
    private static final int MAX_ITEMS = 4096;
    private static final int MAX_DIGITS = 4300;
    private static final Pattern NUMBER = Pattern.compile("-?(?:0|[1-9][0-9]*+)(\\.[0-9]++)?([eE][+-]?[0-9]++)?");
    private static final String LETTERS = "\"\\/bfnrt";
    private static final String MEANINGS = "\"\\/\b\f\n\r\t";
    /** String.compareTo would compare UTF-16 units, and put U+1F600 before U+FF5E. */
    private static final Comparator<String> BY_CODE_POINT =
            (a, b) -> Arrays.compare(a.codePoints().toArray(), b.codePoints().toArray());

    private final String text;
    private final int maxDepth;
    private int at;

    private Canonical(String text, int maxDepth) {
        this.text = text;
        this.maxDepth = maxDepth;
    }

    /** From JSON text in UTF-8 to canonical bytes, of which {@code maxBytes} bounds those of the record profile. */
    public static byte[] canonicalize(byte[] data, Profile profile, int maxBytes) {
        return write(read(data, profile), profile, maxBytes);
    }

    /** The value of a JSON text: RFC 8259 to the letter, no name twice, within the depth of the profile. */
    public static Object read(byte[] data, Profile profile) {
        Canonical reader;
        try {
            String text = StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(data)).toString();
            reader = new Canonical(text, profile.maxDepth);
        } catch (CharacterCodingException error) {
            throw new Refused("not UTF-8");
        }
        Object value = reader.value(0);
        reader.space();
        if (reader.at != reader.text.length()) {
            throw reader.refused("something after the value");
        }
        return value;
    }

    private Refused refused(String what) {
        return new Refused(what + " at " + at);
    }

    private void space() {
        while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private boolean take(String token) {
        space();
        if (!text.startsWith(token, at)) {
            return false;
        }
        at += token.length();
        return true;
    }

    private void expect(String token) {
        if (!take(token)) {
            throw refused("no " + token);
        }
    }

    private Object value(int depth) {
        if (depth > maxDepth) {
            throw refused("nested too deep");
        } else if (take("{")) {
            return object(depth);
        } else if (take("[")) {
            return array(depth);
        } else if (take("\"")) {
            return string();
        } else if (take("null")) {
            return null;
        } else if (take("true")) {
            return true;
        }
        return take("false") ? (Object) false : number();
    }

    private List<Object> array(int depth) {
        List<Object> items = new ArrayList<>();
        while (!take("]")) {
            if (!items.isEmpty()) {
                expect(",");
            }
            items.add(value(depth + 1));
        }
        return items;
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> members = new TreeMap<>(BY_CODE_POINT);
        while (!take("}")) {
            if (!members.isEmpty()) {
                expect(",");
            }
            expect("\"");
            String name = string();
            if (members.containsKey(name)) {
                throw refused("a name twice");
            }
            expect(":");
            members.put(name, value(depth + 1));
        }
        return members;
    }

    /** Reads on after the quote. */
    private String string() {
        StringBuilder out = new StringBuilder();
        while (at < text.length()) {
            char c = text.charAt(at++);
            if (c == '"') {
                return out.toString();
            } else if (c < 0x20) {
                throw refused("a control character");
            }
            out.append(c == '\\' ? escaped() : c);
        }
        throw refused("no closing quote");
    }

    private char escaped() {
        char letter = at < text.length() ? text.charAt(at++) : 0;
        if (LETTERS.indexOf(letter) >= 0) {
            return MEANINGS.charAt(LETTERS.indexOf(letter));
        }
        if (letter != 'u' || at + 4 > text.length() || !text.substring(at, at + 4).matches("[0-9a-fA-F]{4}")) {
            throw refused("not an escape");
        }
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
    }

    private Object number() {
        Matcher matcher = NUMBER.matcher(text).region(at, text.length());
        if (!matcher.lookingAt()) {
            throw refused("no value");
        }
        at = matcher.end();
        if (matcher.group(1) == null && matcher.group(2) == null) {
            if (matcher.group().replace("-", "").length() > MAX_DIGITS) {
                throw refused("an integer of too many digits");
            }
            return new BigInteger(matcher.group());
        }
        double value = Double.parseDouble(matcher.group());
        if (Double.isInfinite(value)) {
            throw refused("a float beyond binary64");
        }
        return value;
    }

    /** The canonical bytes of a value as {@code read} gives it. */
    public static byte[] write(Object value, Profile profile, int maxBytes) {
        Writer writer = new Writer(profile);
        writer.value(value, 0);
        byte[] bytes = writer.out.toString().getBytes(StandardCharsets.UTF_8);
        Writer.refuseIf(profile == Profile.RECORD && bytes.length > maxBytes, "too many bytes");
        return bytes;
    }

    private static final class Writer {
        final StringBuilder out = new StringBuilder();
        final Profile profile;
        final boolean record;
        int items;

        Writer(Profile profile) {
            this.profile = profile;
            this.record = profile == Profile.RECORD;
        }

        static void refuseIf(boolean wrong, String what) {
            if (wrong) {
                throw new Refused(what);
            }
        }

        void value(Object value, int depth) {
            items++;
            refuseIf(depth > profile.maxDepth, "nested too deep");
            refuseIf(record && items > MAX_ITEMS, "too many values");
            if (value == null || value instanceof Boolean) {
                out.append(value);
            } else if (value instanceof BigInteger integer) {
                refuseIf(record && integer.bitLength() > 63, "an integer beyond 64 bits");
                out.append(integer);
            } else if (value instanceof Double number) {
                refuseIf(record || !Double.isFinite(number), "a float that has no form");
                out.append(text(number));
            } else if (value instanceof String string) {
                string(string);
            } else if (value instanceof List<?> list) {
                char before = '[';
                for (Object item : list) {
                    out.append(before);
                    value(item, depth + 1);
                    before = ',';
                }
                out.append(list.isEmpty() ? "[]" : "]");
            } else if (value instanceof Map<?, ?> members) {
                char before = '{';
                for (Map.Entry<?, ?> member : sorted(members).entrySet()) {
                    out.append(before);
                    string((String) member.getKey());
                    out.append(':');
                    value(member.getValue(), depth + 1);
                    before = ',';
                }
                out.append(members.isEmpty() ? "{}" : "}");
            } else {
                throw new Refused("no form for " + value.getClass());
            }
        }

        static Map<String, Object> sorted(Map<?, ?> members) {
            Map<String, Object> out = new TreeMap<>(BY_CODE_POINT);
            members.forEach((name, value) -> out.put((String) name, value));
            return out;
        }

        void string(String value) {
            refuseIf(record && !wellFormed(value), "a lone surrogate");
            out.append('"');
            for (char c : value.toCharArray()) {
                if (c != '/' && MEANINGS.indexOf(c) >= 0) {
                    out.append('\\').append(LETTERS.charAt(MEANINGS.indexOf(c)));
                } else if (c < 0x20 || !record && c >= 0x7f) {
                    out.append(String.format("\\u%04x", (int) c));
                } else {
                    out.append(c);
                }
            }
            out.append('"');
        }
    }

    /** The fewest digits that read back, the nearest of such, in the layout of Python's repr. */
    static String text(double value) {
        String sign = Double.doubleToRawLongBits(value) < 0 ? "-" : "";
        BigDecimal shortest = shortest(Math.abs(value));
        String digits = shortest.unscaledValue().toString();
        int exponent = digits.length() - 1 - shortest.scale();
        if (exponent < -4 || exponent >= 16) {
            String mantissa = digits.length() > 1 ? digits.charAt(0) + "." + digits.substring(1) : digits;
            return String.format("%s%se%s%02d", sign, mantissa, exponent < 0 ? "-" : "+", Math.abs(exponent));
        }
        return sign + (shortest.scale() > 0 ? shortest : shortest.setScale(1)).toPlainString();
    }

    private static BigDecimal shortest(double value) {
        BigDecimal exact = new BigDecimal(value);
        for (int precision = 1; precision <= 17; precision++) {
            // Above a power of two the nearest text may lie outside, and one on the other side within.
            for (RoundingMode mode : List.of(RoundingMode.HALF_EVEN, RoundingMode.UP, RoundingMode.DOWN)) {
                BigDecimal rounded = exact.round(new MathContext(precision, mode));
                if (rounded.doubleValue() == value) {
                    return rounded.signum() == 0 ? BigDecimal.ZERO : rounded.stripTrailingZeros();
                }
            }
        }
        throw new AssertionError("17 digits read back any binary64");
    }

    /** Whether no text in a value has a lone surrogate: no record may, though the evidence profile has bytes for one. */
    public static boolean wellFormed(Object value) {
        if (value instanceof Map<?, ?> members) {
            return members.keySet().stream().allMatch(Canonical::wellFormed)
                    && members.values().stream().allMatch(Canonical::wellFormed);
        } else if (value instanceof List<?> list) {
            return list.stream().allMatch(Canonical::wellFormed);
        }
        return !(value instanceof String text) || text.codePoints().noneMatch(c -> 0xd800 <= c && c <= 0xdfff);
    }

    /** SHA-256 in lower-case hex: over the bytes of the record profile it is the digest of a record. */
    public static String sha256(byte[] canonical) {
        try {
            return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(canonical));
        } catch (NoSuchAlgorithmException error) {
            throw new AssertionError(error);
        }
    }

    /** PREFIX@sha256:HEX over canonical bytes of the evidence profile. */
    public static String contentId(String prefix, byte[] canonical) {
        return prefix + "@sha256:" + sha256(canonical);
    }
}
