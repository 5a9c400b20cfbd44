//! The reader, production by production of RFC 8259.

use firstnan_core::json::{Reader, Token};
use firstnan_core::{Error, ErrorKind};

/// Reads one value of any type to the end of the text.
fn check(data: &[u8]) -> Result<(), Error> {
    let mut reader = Reader::new(data)?;
    reader.skip_value()?;
    reader.end()
}

fn refused(data: &[u8]) -> (ErrorKind, usize) {
    let error = check(data).expect_err(&format!("accepts {data:?}"));
    (error.kind(), error.byte_offset().unwrap())
}

fn string(text: &str) -> Result<String, ErrorKind> {
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    let value = reader.string().map_err(|error| error.kind())?.into_owned();
    reader.end().map_err(|error| error.kind())?;
    Ok(value)
}

#[test]
fn numbers() {
    for text in ["0", "-0", "7", "-12", "1.0", "0.50", "-0.0", "1e5", "1E+05", "1e-0", "12.5e300", "9e99999"] {
        let mut reader = Reader::new(text.as_bytes()).unwrap();
        let number = reader.number().unwrap();
        reader.end().unwrap();
        assert_eq!(number.text, text);
        assert_eq!(number.integer, !text.contains(['.', 'e', 'E']));
    }
    for (text, at) in [
        ("01", 1),
        ("-", 1),
        ("-01", 2),
        ("+1", 0),
        (".5", 0),
        ("1.", 2),
        ("1.e5", 2),
        ("1e", 2),
        ("1e+", 3),
        ("1.5.5", 3),
        ("0x1", 1),
        ("1_0", 1),
        ("1e5e5", 3),
        ("--1", 1),
        ("- 1", 1),
        ("NaN", 0),
        ("Infinity", 0),
        ("-Infinity", 1),
        ("\u{661}", 0),
    ] {
        assert_eq!(refused(text.as_bytes()), (ErrorKind::Syntax, at), "{text}");
    }
}

#[test]
fn values_of_numbers() {
    let number = |text: &'static str| Reader::new(text.as_bytes()).unwrap().number().unwrap();
    assert_eq!(number("-9223372036854775808").to_i64(), Some(i64::MIN));
    assert_eq!(number("9223372036854775808").to_i64(), None);
    assert_eq!(number("-0").to_i64(), Some(0));
    assert_eq!(number("5.0").to_i64(), None);
    assert_eq!(number("5e0").to_i64(), None);
    assert_eq!(number("9007199254740993").to_f64(), Some(9_007_199_254_740_992.0));
    assert_eq!(number("-0").to_f64().map(f64::to_bits), Some((-0.0_f64).to_bits()));
    assert_eq!(number("1e309").to_f64(), None);
}

#[test]
fn literals() {
    for text in ["true", "false", "null"] {
        check(text.as_bytes()).unwrap();
        for cut in 1..text.len() {
            assert_eq!(refused(&text.as_bytes()[..cut]), (ErrorKind::Syntax, 0));
        }
        assert_eq!(refused(text.to_uppercase().as_bytes()).0, ErrorKind::Syntax);
        assert_eq!(refused(format!("{text}s").as_bytes()), (ErrorKind::Syntax, text.len()));
    }
}

#[test]
fn escapes() {
    assert_eq!(string(r#""\"\\\/\b\f\n\r\t""#).unwrap(), "\"\\/\u{8}\u{c}\n\r\t");
    assert_eq!(string(r#""\u0041\u00e9\u00E9\u20aC""#).unwrap(), "Aéé€");
    assert_eq!(string(r#""a\ud83d\uDE00b""#).unwrap(), "a😀b");
    for text in [
        r#""\a""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\U0041""#,
        r#""\x41""#,
        r#""\'""#,
        r#""\u+123""#,
        r#""\u00 1""#,
        "\"\\\n\"",
        "\"\\u00é\"",
    ] {
        assert_eq!(string(text), Err(ErrorKind::Syntax), "{text}");
        assert_eq!(refused(text.as_bytes()), (ErrorKind::Syntax, 1), "{text}");
    }
    assert_eq!(refused(br#"["abcdefgh\q"]"#), (ErrorKind::Syntax, 10));
}

#[test]
fn lone_surrogates() {
    for text in
        [r#""\ud800""#, r#""\udfff""#, r#""\udbff\ud800\udc00""#, r#""\ude00\ud83d""#, r#""\ud83dx\ude00""#, r#""\ud83d\n""#]
    {
        assert_eq!(string(text), Err(ErrorKind::LoneSurrogate), "{text}");
    }
    let mut reader = Reader::new(br#""a\ud800\ud83d\ude00\udfff""#).unwrap();
    assert_eq!(&*reader.string_wtf8().unwrap(), b"a\xed\xa0\x80\xf0\x9f\x98\x80\xed\xbf\xbf");
    let mut reader = Reader::new(br#"{"\ud800":1}"#).unwrap();
    reader.begin_object().unwrap();
    let error = reader.clone().next_name(&mut true).unwrap_err();
    assert_eq!((error.kind(), error.byte_offset()), (ErrorKind::LoneSurrogate, Some(2)));
    assert_eq!(reader.next_name_wtf8(&mut true).unwrap().as_deref(), Some(&b"\xed\xa0\x80"[..]));
    assert_eq!(string(r#""\ud83d\u""#), Err(ErrorKind::Syntax));
}

#[test]
fn control_characters() {
    for byte in 0..=0xff_u8 {
        for padding in ["", "seven..", "more than eight characters"] {
            let text = format!("\"{padding}{}\"", char::from(byte));
            match byte {
                0..=0x1f => assert_eq!(refused(text.as_bytes()), (ErrorKind::Syntax, padding.len() + 1)),
                b'"' | b'\\' => assert_eq!(refused(text.as_bytes()).0, ErrorKind::Syntax),
                _ => assert_eq!(string(&text).unwrap(), text[1..text.len() - 1]),
            }
        }
    }
}

#[test]
fn white_space_is_four_characters() {
    check(b" \t\n\r{ \t\n\r\"a\" \t\n\r: \t\n\r[ \t\n\r1 \t\n\r, \t\n\r2 \t\n\r] \t\n\r} \t\n\r").unwrap();
    for space in ["\u{b}", "\u{c}", "\u{a0}", "\u{85}", "\u{2028}", "\0", "\u{feff}"] {
        assert_eq!(refused(format!("[{space}1]").as_bytes()), (ErrorKind::Syntax, 1));
        assert_eq!(refused(format!("[1]{space}").as_bytes()), (ErrorKind::Syntax, 3));
    }
}

#[test]
fn encoding() {
    assert_eq!(refused(b"\xef\xbb\xbf{}"), (ErrorKind::ByteOrderMark, 0));
    assert_eq!(refused(b"[\"ok\xff\"]"), (ErrorKind::Encoding, 4));
    assert_eq!(refused(b"\xff\xfe1\x00"), (ErrorKind::Encoding, 0));
    assert_eq!(refused(b"\"\xf4\x90\x80\x80\""), (ErrorKind::Encoding, 1));
    assert_eq!(refused(b"\"\xe2\x82\""), (ErrorKind::Encoding, 1));
}

#[test]
fn containers() {
    for text in ["{}", "[]", "[[],{}]", r#"{"a":1,"a":2}"#, r#"{"":{"b":[]}}"#, "[0,0]"] {
        check(text.as_bytes()).unwrap();
    }
    for (text, at) in [
        ("[1,]", 3),
        ("[,1]", 1),
        ("[1 2]", 3),
        ("[1:2]", 2),
        ("[1}", 2),
        ("{]", 1),
        (r#"{"a"}"#, 4),
        (r#"{"a":}"#, 5),
        (r#"{"a":1,}"#, 7),
        (r#"{"a":1 "b":2}"#, 7),
        (r#"{"a",1}"#, 4),
        ("{1:2}", 1),
        ("{,}", 1),
        ("[1]]", 3),
        ("{}{}", 2),
        ("]", 0),
        ("// note\n1", 0),
    ] {
        assert_eq!(refused(text.as_bytes()), (ErrorKind::Syntax, at), "{text}");
    }
}

#[test]
fn truncation_at_every_byte() {
    let text = r#"{"name": ["\u00e9\ud83d\ude00é", -12.5e+3, true, false, null, {"x": {}}, []]}"#;
    check(text.as_bytes()).unwrap();
    for cut in 0..text.len() {
        let (kind, at) = refused(&text.as_bytes()[..cut]);
        let expected = if text.is_char_boundary(cut) { ErrorKind::Syntax } else { ErrorKind::Encoding };
        assert_eq!(kind, expected, "cut at {cut}");
        assert!(at <= cut);
    }
}

#[test]
fn skipping_is_bounded_in_depth() {
    let nested = |depth: usize| format!("{}0{}", "[".repeat(depth), "]".repeat(depth));
    check(nested(256).as_bytes()).unwrap();
    check(format!("{}0{}", "{\"a\":".repeat(256), "}".repeat(256)).as_bytes()).unwrap();
    assert_eq!(refused(nested(257).as_bytes()), (ErrorKind::Depth, 257));
    assert_eq!(refused("[".repeat(1_000_000).as_bytes()).0, ErrorKind::Depth);
    assert_eq!(refused("{\"a\":[".repeat(1_000_000).as_bytes()).0, ErrorKind::Depth);
}

#[test]
fn the_caller_asks_for_what_it_expects() {
    let mut reader = Reader::new(br#" {"a": [1, "x"], "b": null, "c": [true]} "#).unwrap();
    assert_eq!(reader.peek().unwrap(), Token::Object);
    reader.begin_object().unwrap();
    let mut first = true;
    assert_eq!(reader.next_name(&mut first).unwrap().as_deref(), Some("a"));
    assert_eq!(reader.clone().begin_object().unwrap_err().byte_offset(), Some(7));
    assert_eq!(reader.peek().unwrap(), Token::Array);
    reader.begin_array().unwrap();
    let mut first_element = true;
    assert!(reader.next_element(&mut first_element).unwrap());
    assert_eq!(reader.number().unwrap().to_i64(), Some(1));
    assert!(reader.next_element(&mut first_element).unwrap());
    assert_eq!(reader.clone().number().unwrap_err().byte_offset(), Some(11));
    assert_eq!(reader.string().unwrap(), "x");
    assert!(!reader.next_element(&mut first_element).unwrap());
    assert_eq!(reader.next_name(&mut first).unwrap().as_deref(), Some("b"));
    assert!(reader.clone().boolean().is_err());
    reader.null().unwrap();
    assert_eq!(reader.next_name(&mut first).unwrap().as_deref(), Some("c"));
    reader.skip_value().unwrap();
    assert_eq!(reader.next_name(&mut first).unwrap(), None);
    reader.end().unwrap();
}

#[test]
fn the_first_wire_fault_stays() {
    let mut reader = Reader::new(b"1").unwrap();
    assert!(reader.take_wire_fault().is_none());
    reader.set_wire_fault(Error::new(ErrorKind::IntegerForm));
    reader.set_wire_fault(Error::new(ErrorKind::DuplicateName));
    assert_eq!(reader.take_wire_fault().unwrap().kind(), ErrorKind::IntegerForm);
    assert!(reader.take_wire_fault().is_none());
}

#[test]
fn strings_without_escapes_are_borrowed() {
    let text = r#"["a plain string, longer than a word: é","\n"]"#;
    let mut reader = Reader::new(text.as_bytes()).unwrap();
    reader.begin_array().unwrap();
    let mut first = true;
    assert!(reader.next_element(&mut first).unwrap());
    assert!(matches!(reader.string().unwrap(), std::borrow::Cow::Borrowed(_)));
    assert!(reader.next_element(&mut first).unwrap());
    assert!(matches!(reader.string().unwrap(), std::borrow::Cow::Owned(_)));
}
