package example.firstnan;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadFeature;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.cfg.CoercionAction;
import com.fasterxml.jackson.databind.cfg.CoercionInputShape;
import com.fasterxml.jackson.databind.json.JsonMapper;

/**
 * Reads and writes the records beside this file. A Number is an Integer, a Long or a BigInteger where it was written as an
 * integer, else a Double, since 1024 and 1024.0 have different identities. No bound and no rule is checked: validate first.
 */
public final class Records {
  private static final JsonMapper MAPPER =
      JsonMapper.builder()
          .enable(StreamReadFeature.STRICT_DUPLICATE_DETECTION)
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
          .withCoercionConfigDefaults(
              all -> {
                for (CoercionInputShape shape : CoercionInputShape.values()) {
                  all.setCoercion(shape, CoercionAction.Fail);
                }
              })
          .build();

  private Records() {}

  /** Reads a record of a type such as one of {@link Kinds}. */
  public static <T> T read(String text, Class<T> type) throws JsonProcessingException {
    return MAPPER.readValue(text, type);
  }

  /** Writes a record as JSON text, which {@code Canonical} makes canonical. */
  public static String write(Object record) throws JsonProcessingException {
    return MAPPER.writeValueAsString(record);
  }
}
