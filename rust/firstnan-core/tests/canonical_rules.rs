//! The sentences of docs/canonical.md that the vectors do not reach.

use firstnan_core::canonical::{canonicalize, canonicalize_bounded, write_string, write_string_wtf8};
use firstnan_core::{ErrorKind, Profile};

fn record(text: &str) -> Result<String, ErrorKind> {
    canonical(text, Profile::Record)
}

fn evidence(text: &str) -> Result<String, ErrorKind> {
    canonical(text, Profile::Evidence)
}

fn canonical(text: &str, profile: Profile) -> Result<String, ErrorKind> {
    canonicalize(text.as_bytes(), profile).map(|bytes| String::from_utf8(bytes).unwrap()).map_err(|error| error.kind())
}

fn offset(text: &str, profile: Profile) -> usize {
    canonicalize(text.as_bytes(), profile).unwrap_err().byte_offset().unwrap()
}

#[test]
fn names_are_sorted_by_code_point() {
    // UTF-16 units would put U+1F600 (d83d de00) before U+FF5E.
    let text = r#"{"😀":1,"～":2,"\"":3,"!":4,"a":5,"":6,"ab":7,"\u0001":8,"\\":9}"#;
    let sorted = r#"{"":6,"\u0001":8,"!":4,"\"":3,"\\":9,"a":5,"ab":7,"～":2,"😀":1}"#;
    assert_eq!(record(text).unwrap(), sorted);
    let ascii = r#"{"":6,"\u0001":8,"!":4,"\"":3,"\\":9,"a":5,"ab":7,"\uff5e":2,"\ud83d\ude00":1}"#;
    assert_eq!(evidence(text).unwrap(), ascii);
}

#[test]
fn lone_surrogates_are_sorted_as_code_points() {
    let text = r#"{"\ue000":1,"\udfff":2,"\ud800":3,"\ud800a":4,"\ud7ff":5,"😀":6}"#;
    let sorted = r#"{"\ud7ff":5,"\ud800":3,"\ud800a":4,"\udfff":2,"\ue000":1,"\ud83d\ude00":6}"#;
    assert_eq!(evidence(text).unwrap(), sorted);
    assert_eq!(record(text), Err(ErrorKind::LoneSurrogate));
    assert_eq!(offset(r#"["é","x\udfff"]"#, Profile::Record), 6);
}

#[test]
fn nested_objects_are_sorted_inside_out() {
    let text = r#" { "b" : { "z" : [ { "d" : 1 , "c" : { } } , [ ] ] , "a" : null } , "a" : true } "#;
    assert_eq!(record(text).unwrap(), r#"{"a":true,"b":{"a":null,"z":[{"c":{},"d":1},[]]}}"#);
}

#[test]
fn a_name_twice_is_refused_however_it_is_spelled() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":3}"#,
        r#"[{"x":{"😀":1,"\ud83d\ude00":2}}]"#,
        r#"{"/":1,"\/":2}"#,
        r#"{"":1,"":1}"#,
    ] {
        for profile in [Profile::Record, Profile::Evidence] {
            assert_eq!(canonical(text, profile), Err(ErrorKind::DuplicateName), "{text}");
        }
    }
    assert_eq!(evidence(r#"{"\ud800":1,"\uD800":2}"#), Err(ErrorKind::DuplicateName));
    assert_eq!(offset(r#"{"b":1,"a":2,"b":3}"#, Profile::Record), 17);
    assert_eq!(evidence(r#"{"\ud83d":1,"\ud83d\ude00":2,"\ude00":3}"#).unwrap(), r#"{"\ud83d":1,"\ude00":3,"\ud83d\ude00":2}"#);
    assert!(record(r#"{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}"#).is_ok());
}

#[test]
fn escapes_are_the_short_ones_and_lower_case() {
    let text = r#""\u0000\u0008\u0009\u000A\u000b\u000C\u000d\u001F\u0022\u005C\u002f\u007F\u0080\u2028\u00E9""#;
    let tail = r#"\u0000\b\t\n\u000b\f\r\u001f\"\\/"#;
    assert_eq!(record(text).unwrap(), format!("\"{tail}\u{7f}\u{80}\u{2028}é\""));
    assert_eq!(evidence(text).unwrap(), format!("\"{tail}\\u007f\\u0080\\u2028\\u00e9\""));
}

#[test]
fn integers_and_floats_keep_their_type() {
    assert_eq!(
        evidence("[1024,1024.0,1.024e3,-0,-0.0,0.0,1E0,100000000000000000000]").unwrap(),
        "[1024,1024.0,1024.0,0,-0.0,0.0,1.0,100000000000000000000]"
    );
    assert_eq!(record("[-0,9223372036854775807,-9223372036854775808]").unwrap(), "[0,9223372036854775807,-9223372036854775808]");
    assert_eq!(record("9223372036854775808"), Err(ErrorKind::IntegerRange));
    assert_eq!(record("[1,1.0]"), Err(ErrorKind::FloatForbidden));
    assert_eq!(offset("[1,1.0]", Profile::Record), 3);
}

#[test]
fn a_float_beyond_binary64_is_refused() {
    assert_eq!(evidence("1.7976931348623158e308").unwrap(), "1.7976931348623157e+308");
    for text in ["1e309", "-1.7976931348623159e308", "1e99999999999999999999"] {
        assert_eq!(evidence(text), Err(ErrorKind::NonFinite), "{text}");
    }
    assert_eq!(evidence("1e-99999999999999999999").unwrap(), "0.0");
}

#[test]
fn integers_have_at_most_4300_digits() {
    let most = "9".repeat(4300);
    assert_eq!(evidence(&most).unwrap(), most);
    assert_eq!(evidence(&format!("-{most}")).unwrap(), format!("-{most}"));
    assert_eq!(evidence(&format!("{most}9")), Err(ErrorKind::IntegerRange));
    assert_eq!(evidence(&format!("{most}9.0")), Err(ErrorKind::NonFinite));
}

#[test]
fn depth_is_bounded_by_profile() {
    for (profile, most) in [(Profile::Record, 16), (Profile::Evidence, 256)] {
        let nested = |depth: usize, leaf: &str| format!("{}{leaf}{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}0{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        assert_eq!(canonical(&nested(most, "0"), profile).unwrap(), nested(most, "0"));
        assert_eq!(canonical(&nested(most + 1, ""), profile).unwrap(), nested(most + 1, ""));
        assert_eq!(canonical(&objects(most), profile).unwrap(), objects(most));
        for text in [nested(most + 1, "0"), objects(most + 1), nested(1_000_000, ""), "[".repeat(1_000_000)] {
            assert_eq!(canonical(&text, profile), Err(ErrorKind::Depth));
        }
        assert_eq!(offset(&nested(most + 1, "0"), profile), most + 1);
    }
}

#[test]
fn items_are_bounded_in_the_record_profile_only() {
    let array = |count: usize| format!("[{}]", vec!["1"; count].join(","));
    assert_eq!(record(&array(4095)).unwrap(), array(4095));
    assert_eq!(record(&array(4096)), Err(ErrorKind::Items));
    assert_eq!(evidence(&array(100_000)).unwrap(), array(100_000));
}

#[test]
fn size_is_bounded_in_the_record_profile_only() {
    let string = |count: usize| format!("\"{}\"", "é".repeat(count));
    assert_eq!(record(&string(32_767)).unwrap(), string(32_767));
    assert_eq!(record(&string(32_768)), Err(ErrorKind::Size));
    assert!(evidence(&string(1_000_000)).is_ok());
    assert_eq!(canonicalize_bounded(b" [ 1 , 2 ] ", 5).unwrap(), b"[1,2]");
    assert_eq!(canonicalize_bounded(b"[1,2]", 4).unwrap_err().kind(), ErrorKind::Size);
    assert_eq!(canonicalize_bounded(b"1", 0).unwrap_err().kind(), ErrorKind::Minimum);
    assert_eq!(canonicalize_bounded(b"1", 65_537).unwrap_err().pointer(), "/max_bytes");
}

#[test]
fn text_must_be_one_json_value_in_utf8() {
    for (data, kind, at) in [
        (&b"\xef\xbb\xbf1"[..], ErrorKind::ByteOrderMark, 0),
        (b"\"\xff\"", ErrorKind::Encoding, 1),
        (b"\"\xed\xa0\x80\"", ErrorKind::Encoding, 1),
        (b"\"\xc0\x80\"", ErrorKind::Encoding, 1),
        (b"1 2", ErrorKind::Syntax, 2),
        (b"", ErrorKind::Syntax, 0),
        (b"[NaN]", ErrorKind::Syntax, 1),
        (b"-Infinity", ErrorKind::Syntax, 1),
        (b"{\"a\":1,}", ErrorKind::Syntax, 7),
        (b"{'a':1}", ErrorKind::Syntax, 1),
    ] {
        for profile in [Profile::Record, Profile::Evidence] {
            let error = canonicalize(data, profile).unwrap_err();
            assert_eq!((error.kind(), error.byte_offset()), (kind, Some(at)), "{data:?}: {error}");
        }
    }
}

#[test]
fn the_writers_of_strings_agree() {
    for text in ["", "plain", "\"", "tab\tnew\nline", "é\u{7f}\u{2028}", "a long text without anything special, é", "😀\u{1}"]
    {
        for profile in [Profile::Record, Profile::Evidence] {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            write_string(profile, text, &mut one).unwrap();
            write_string_wtf8(profile, text.as_bytes(), &mut other).unwrap();
            assert_eq!(one, other, "{text:?}");
        }
    }
}

#[test]
fn wtf8_that_is_neither_utf8_nor_a_surrogate_is_refused() {
    let mut out = Vec::new();
    write_string_wtf8(Profile::Evidence, b"a\xed\xa0\xbd\xed\xb8\x80\xc3\xa9", &mut out).unwrap();
    assert_eq!(out, br#""a\ud83d\ude00\u00e9""#);
    for bytes in [&b"\xff"[..], b"\xed\xa0", b"\xed", b"\xf0\x9f\x98", b"\xed\xa0\x41", b"\xc0\x80"] {
        let error = write_string_wtf8(Profile::Evidence, bytes, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Encoding, "{bytes:?}");
    }
    let error = write_string_wtf8(Profile::Record, b"\xed\xa0\xbd", &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LoneSurrogate);
}
