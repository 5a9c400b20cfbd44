//! Every element type: its width, its bit layout and what a pattern is worth.
//!
//! Layouts: IEEE 754 for the wide floats, the OCP 8-bit floating point and OCP Microscaling specifications and the
//! README of `ml_dtypes` for the small ones. Element types below eight bits lie one to a byte, in its low bits.

/// One element type. `name` is that of numpy and `ml_dtypes`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// The dtype's name, such as `bfloat16`.
    pub name: &'static str,
    /// Bytes of one element, both parts of a complex one.
    pub width: usize,
    /// What the bytes are.
    pub kind: Kind,
}

/// What the bytes of an element are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// One floating-point number.
    Float(FloatLayout),
    /// The real, then the imaginary part.
    Complex(FloatLayout),
    /// Two's complement in the low `bits` bits.
    Signed {
        /// Significant bits.
        bits: u32,
    },
    /// An unsigned integer in the low `bits` bits.
    Unsigned {
        /// Significant bits.
        bits: u32,
    },
    /// One byte, true unless zero.
    Boolean,
}

/// The bit layout of a floating-point number.
///
/// Above the pattern `largest` comes infinity where there is one, then NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatLayout {
    /// Significant bits, in the low end of the bytes.
    pub bits: u32,
    /// The mask of the sign bit, 0 in an unsigned format.
    pub sign: u64,
    /// The greatest pattern of a finite magnitude.
    pub largest: u64,
    /// Whether `largest + 1` is infinity.
    pub has_infinity: bool,
    /// Whether the one NaN is the pattern `sign`.
    pub nan_is_negative_zero: bool,
    /// Stored bits of the significand.
    pub significand_bits: u32,
    /// What is taken from the stored exponent.
    pub bias: i32,
    /// Whether the stored exponent 0 means subnormal, with no leading one.
    pub subnormals: bool,
}

impl FloatLayout {
    /// The mask of exponent and significand.
    pub fn magnitude_mask(&self) -> u64 {
        (u64::MAX >> (64 - self.bits)) & !self.sign
    }

    /// The value of a finite magnitude's pattern; exact, since binary64 holds every format here.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small")]
    pub fn decode(&self, pattern: u64) -> f64 {
        if self.bits == 64 {
            return f64::from_bits(pattern);
        }
        let stored = (pattern >> self.significand_bits) as i32;
        let fraction = (pattern & ((1 << self.significand_bits) - 1)) as f64;
        let leading = (1_u64 << self.significand_bits) as f64;
        let (exponent, significand) = match stored {
            0 if self.subnormals => (1, fraction),
            _ => (stored, leading + fraction),
        };
        // The exponent lies in [-149, 127], where a power of two has a normal pattern.
        let power = exponent - self.bias - self.significand_bits as i32 + 1023;
        significand * f64::from_bits(u64::from(power.unsigned_abs()) << 52)
    }
}

impl Format {
    /// The element type of a name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The width of what byte order applies to: an element, or one part of a complex one.
    pub fn part_width(&self) -> usize {
        if matches!(self.kind, Kind::Complex(_)) { self.width / 2 } else { self.width }
    }
}

#[allow(clippy::similar_names, reason = "the field's words")]
const fn layout(bits: u32, significand_bits: u32, bias: i32, largest: u64) -> FloatLayout {
    FloatLayout {
        bits,
        sign: 1 << (bits - 1),
        largest,
        has_infinity: true,
        nan_is_negative_zero: false,
        significand_bits,
        bias,
        subnormals: true,
    }
}

const fn finite_only(layout: FloatLayout) -> FloatLayout {
    FloatLayout { has_infinity: false, ..layout }
}

const fn one_nan(layout: FloatLayout) -> FloatLayout {
    FloatLayout { has_infinity: false, nan_is_negative_zero: true, ..layout }
}

const fn unsigned(layout: FloatLayout) -> FloatLayout {
    FloatLayout { has_infinity: false, sign: 0, ..layout }
}

const FLOAT64: FloatLayout = layout(64, 52, 1023, 0x7FEF_FFFF_FFFF_FFFF);
const FLOAT32: FloatLayout = layout(32, 23, 127, 0x7F7F_FFFF);
const FLOAT16: FloatLayout = layout(16, 10, 15, 0x7BFF);
const BFLOAT16: FloatLayout = layout(16, 7, 127, 0x7F7F);
const E8M0: FloatLayout = FloatLayout { subnormals: false, ..unsigned(layout(8, 0, 127, 0xFE)) };

const fn float(name: &'static str, layout: FloatLayout) -> Format {
    Format { name, width: layout.bits.div_ceil(8) as usize, kind: Kind::Float(layout) }
}

const fn complex(name: &'static str, part: FloatLayout) -> Format {
    Format { name, width: part.bits as usize / 4, kind: Kind::Complex(part) }
}

const fn signed(name: &'static str, bits: u32) -> Format {
    Format { name, width: bits.div_ceil(8) as usize, kind: Kind::Signed { bits } }
}

const fn natural(name: &'static str, bits: u32) -> Format {
    Format { name, width: bits.div_ceil(8) as usize, kind: Kind::Unsigned { bits } }
}

/// Every element type that can be counted.
pub static FORMATS: [Format; 35] = [
    float("float64", FLOAT64),
    float("float32", FLOAT32),
    float("float16", FLOAT16),
    float("bfloat16", BFLOAT16),
    float("float8_e5m2", layout(8, 2, 15, 0x7B)),
    float("float8_e4m3", layout(8, 3, 7, 0x77)),
    float("float8_e3m4", layout(8, 4, 3, 0x6F)),
    float("float8_e4m3fn", finite_only(layout(8, 3, 7, 0x7E))),
    float("float8_e5m2fnuz", one_nan(layout(8, 2, 16, 0x7F))),
    float("float8_e4m3fnuz", one_nan(layout(8, 3, 8, 0x7F))),
    float("float8_e4m3b11fnuz", one_nan(layout(8, 3, 11, 0x7F))),
    float("float8_e8m0fnu", E8M0),
    float("float8_e5m3fnu", unsigned(layout(8, 3, 15, 0xFE))),
    float("float6_e2m3fn", finite_only(layout(6, 3, 1, 0x1F))),
    float("float6_e3m2fn", finite_only(layout(6, 2, 3, 0x1F))),
    float("float4_e2m1fn", finite_only(layout(4, 1, 1, 0x7))),
    complex("complex128", FLOAT64),
    complex("complex64", FLOAT32),
    complex("complex32", FLOAT16),
    complex("bcomplex32", BFLOAT16),
    signed("int64", 64),
    signed("int32", 32),
    signed("int16", 16),
    signed("int8", 8),
    signed("int4", 4),
    signed("int2", 2),
    signed("int1", 1),
    natural("uint64", 64),
    natural("uint32", 32),
    natural("uint16", 16),
    natural("uint8", 8),
    natural("uint4", 4),
    natural("uint2", 2),
    natural("uint1", 1),
    Format { name: "bool", width: 1, kind: Kind::Boolean },
];
