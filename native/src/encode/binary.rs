//! Values to bytes, as Avro and Craft have them.

use arrow_buffer::i256;

/// An unsigned integer, seven bits to a byte, the lowest first.
#[inline]
pub fn uvarint(mut number: u64, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A signed integer as an unsigned one that stays small.
#[inline]
pub fn varint(number: i64, out: &mut Vec<u8>) {
    uvarint((number << 1 ^ number >> 63) as u64, out);
}

/// A length, and the bytes that `fill` appends.
#[inline]
pub fn counted(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
    let start = out.len();
    out.push(0);
    fill(out)?;
    let length = out.len() - start - 1;
    if length < 0x40 {
        out[start] = (length as u8) << 1;
        return Some(());
    }
    let mut head = Vec::with_capacity(10);
    varint(length as i64, &mut head);
    out.splice(start..=start, head);
    Some(())
}

/// The shortest two's complement, the highest byte first.
pub fn shortest(number: i256, out: &mut Vec<u8>) {
    let bytes = number.to_be_bytes();
    let sign = if number.is_negative() { 0xff } else { 0 };
    let mut start = 0;
    while start < 31 && bytes[start] == sign && (bytes[start + 1] ^ sign) < 0x80 {
        start += 1;
    }
    out.extend_from_slice(&bytes[start..]);
}

const MOST_DIGITS: usize = 70;

/// The text of a DECIMAL in units of its last digit. It must have no more digits behind the point than that.
pub fn unscaled(text: &[u8], scale: usize) -> Option<i256> {
    let (negative, size) = match text.strip_prefix(b"-") {
        Some(size) => (true, size),
        None => (false, text),
    };
    let point = size.iter().position(|&byte| byte == b'.').unwrap_or(size.len());
    let fraction = size.get(point + 1..).unwrap_or_default();
    if fraction.len() > scale || point + scale > MOST_DIGITS {
        return None;
    }
    let ten = i256::from_i128(10);
    let mut number = i256::ZERO;
    for &byte in size[..point].iter().chain(fraction) {
        number = number.wrapping_mul(ten).wrapping_add(i256::from_i128(i128::from(byte - b'0')));
    }
    for _ in fraction.len()..scale {
        number = number.wrapping_mul(ten);
    }
    Some(if negative { number.wrapping_neg() } else { number })
}
