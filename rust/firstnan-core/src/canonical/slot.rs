//! Canonical scalars into a slice that is long enough: nothing grows, and no function is called for a few bytes.

use super::float::whole;
use super::write_float;
use crate::json::scan::special_in_word;

/// Parts of a text are copied in steps of so many bytes, and may write up to the next step.
pub const STEP: usize = 16;
/// Room for any number: a sign, 17 digits, a point and an exponent, or 20 digits.
pub const NUMBER_ROOM: usize = 24;

/// A place in a slice. Every method gives None where there is no room, or where the careful functions beside this one
/// have more to say; what is in the slice from the place on means nothing then.
#[derive(Debug)]
pub struct Slot<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Slot<'a> {
    /// The start of the slice.
    pub fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How far it was written.
    pub fn position(&self) -> usize {
        self.at
    }

    /// One byte as it is.
    #[inline]
    pub fn byte(&mut self, byte: u8) -> Option<()> {
        *self.bytes.get_mut(self.at)? = byte;
        self.at += 1;
        Some(())
    }

    /// A few bytes as they are.
    #[inline]
    pub fn short(&mut self, bytes: &[u8]) -> Option<()> {
        bytes.iter().try_for_each(|byte| self.byte(*byte))
    }

    /// So many bytes of a text from `start` on, in whole steps where the text goes on for long enough.
    #[inline]
    pub fn part(&mut self, text: &[u8], start: usize, length: usize) -> Option<()> {
        let whole = length.next_multiple_of(STEP);
        let to = self.bytes.get_mut(self.at..)?.get_mut(..whole)?;
        if let Some(from) = text.get(start..start + whole) {
            for (to, from) in to.as_chunks_mut::<STEP>().0.iter_mut().zip(from.as_chunks::<STEP>().0) {
                *to = *from;
            }
            self.at += length;
            return Some(());
        }
        self.short(text.get(start..start + length)?)
    }

    /// A string in quotes that needs no escape.
    #[inline]
    pub fn text<const PRINTABLE: bool>(&mut self, text: &str) -> Option<()> {
        let text = text.as_bytes();
        let [open, body @ .., close] = self.bytes.get_mut(self.at..)?.get_mut(..text.len() + 2)? else { return None };
        (*open, *close) = (b'"', b'"');
        self.at += text.len() + 2;
        // Words that overlap at the end, so that no byte is looked at alone.
        let mut special = 0;
        if let (Some(to), Some(from)) = (body.last_chunk_mut::<8>(), text.last_chunk::<8>()) {
            *to = *from;
            special |= special_in_word::<PRINTABLE>(u64::from_le_bytes(*from));
            for (to, from) in body.as_chunks_mut::<8>().0.iter_mut().zip(text.as_chunks::<8>().0) {
                *to = *from;
                special |= special_in_word::<PRINTABLE>(u64::from_le_bytes(*from));
            }
        } else if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
            *body.first_chunk_mut::<4>()? = *first;
            *body.last_chunk_mut::<4>()? = *last;
            let word = u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32;
            special |= special_in_word::<PRINTABLE>(word);
        } else {
            for (to, from) in body.iter_mut().zip(text) {
                *to = *from;
                // In a word of blanks, which are not special.
                special |= special_in_word::<PRINTABLE>(0x2020_2020_2020_2000 | u64::from(*from));
            }
        }
        (special == 0).then_some(())
    }

    /// An integer.
    #[inline]
    pub fn integer(&mut self, value: i64) -> Option<()> {
        if value < 0 {
            self.byte(b'-')?;
        }
        let mut rest = value.unsigned_abs();
        let count = rest.checked_ilog10().map_or(1, |power| power as usize + 1);
        let digits = self.bytes.get_mut(self.at..)?.get_mut(..count)?;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.at += count;
        Some(())
    }

    /// A finite binary64.
    #[inline]
    pub fn float(&mut self, value: f64) -> Option<()> {
        if let Some(whole) = whole(value.abs()) {
            if value.is_sign_negative() {
                self.byte(b'-')?;
            }
            self.integer(whole)?;
            return self.short(b".0");
        }
        let mut text = Vec::with_capacity(NUMBER_ROOM);
        write_float(value, &mut text).ok()?;
        self.short(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::{write_integer, write_string};
    use crate::record::Profile;

    const ROOM: usize = 64;

    fn written(write: impl Fn(&mut Slot<'_>) -> Option<()>) -> Option<Vec<u8>> {
        let mut bytes = [b'#'; ROOM];
        let mut slot = Slot::new(&mut bytes);
        write(&mut slot)?;
        let length = slot.position();
        Some(bytes[..length].to_vec())
    }

    #[test]
    fn a_string_is_as_the_careful_way_writes_it_or_left_to_it() {
        let characters =
            ["", "\0", "\u{1f}", " ", "!", "\"", "#", "[", "\\", "]", "~", "\u{7f}", "\u{80}", "\u{ff}", "é", "\u{ffff}", "😀"];
        for length in 0..=24 {
            for place in 0..=length {
                for character in characters {
                    let text = format!("{}{character}{}", "a".repeat(place), "z".repeat(length - place));
                    for profile in [Profile::Record, Profile::Evidence] {
                        let mut careful = Vec::new();
                        write_string(profile, &text, &mut careful).unwrap();
                        let plain = careful.len() == text.len() + 2;
                        let quick = match profile {
                            Profile::Record => written(|slot| slot.text::<false>(&text)),
                            Profile::Evidence => written(|slot| slot.text::<true>(&text)),
                        };
                        assert_eq!(quick, plain.then_some(careful), "{text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_number_is_as_the_careful_way_writes_it() {
        let mut integers = vec![0, i64::MAX, i64::MIN];
        let mut floats = vec![0.0, 0.1, 1e16, 1e22, 5e-324, f64::MAX, 9_007_199_254_740_991.0, 9_007_199_254_740_992.0, 1024.5];
        for power in 0..19 {
            let power = 10_i64.pow(power);
            integers.extend([power - 1, power, 1 - power, -power]);
            #[expect(clippy::cast_precision_loss, reason = "any float will do")]
            floats.extend([power as f64, 1.0 / power as f64]);
        }
        for value in integers {
            let mut careful = Vec::new();
            write_integer(value, &mut careful);
            assert_eq!(written(|slot| slot.integer(value)), Some(careful));
        }
        for value in floats.into_iter().flat_map(|value| [value, -value]) {
            let mut careful = Vec::new();
            write_float(value, &mut careful).unwrap();
            assert_eq!(written(|slot| slot.float(value)), Some(careful));
        }
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(written(|slot| slot.float(value)), None);
        }
    }

    #[test]
    fn a_part_of_a_text_is_cut_to_its_length() {
        let text = *b"#{\"a\":0,\"abcdefghijklmno\":1}##";
        for start in 0..text.len() {
            for length in 0..=text.len() - start {
                let part = |slot: &mut Slot<'_>| slot.part(&text, start, length).and_then(|()| slot.short(b"!"));
                assert_eq!(written(part), Some([&text[start..start + length], b"!"].concat()));
            }
            assert_eq!(written(|slot| slot.part(&text, start, text.len() + 1 - start)), None);
        }
    }

    #[test]
    fn without_room_nothing_is_said() {
        for room in 0..12 {
            let mut bytes = vec![0; room];
            assert_eq!(Slot::new(&mut bytes).text::<true>("abcdefgh").is_some(), room >= 10);
            assert_eq!(Slot::new(&mut bytes).byte(b'1').is_some(), room >= 1);
            assert_eq!(Slot::new(&mut bytes).short(b"true").is_some(), room >= 4);
            assert!(Slot::new(&mut bytes).part(&[0; STEP], 0, 1).is_none());
            assert_eq!(Slot::new(&mut bytes).integer(-12).is_some(), room >= 3);
            assert_eq!(Slot::new(&mut bytes).float(0.5).is_some(), room >= 3);
        }
    }
}
