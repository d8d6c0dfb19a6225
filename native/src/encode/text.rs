//! Values to text, as the readable codec prints them. `None` leaves the rows to the codec.

use std::io::Write;

const PAIRS: &[u8; 200] =
    b"0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// The digits of an integer.
#[inline]
pub fn unsigned(mut number: u64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number >= 100 {
        let pair = (number % 100) as usize * 2;
        number /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number >= 10 {
        let pair = number as usize * 2;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        digits[at] = b'0' + number as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// The digits of an integer, behind its minus.
#[inline]
pub fn signed(number: i64, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    unsigned(number.unsigned_abs(), out);
}

/// Exactly two digits.
#[inline]
fn two(number: u64, out: &mut Vec<u8>) {
    let pair = number as usize * 2;
    out.extend_from_slice(&PAIRS[pair..pair + 2]);
}

/// A decimal number in units of its last digit, with so many digits behind the point.
pub fn decimal(number: i128, scale: usize, out: &mut Vec<u8>) {
    if number < 0 {
        out.push(b'-');
    }
    let start = out.len();
    match u64::try_from(number.unsigned_abs()) {
        Ok(short) => unsigned(short, out),
        Err(_) => write!(out, "{}", number.unsigned_abs()).unwrap_or_default(),
    }
    if scale == 0 {
        return;
    }
    let length = out.len() - start;
    if length <= scale {
        let zeros = scale + 1 - length;
        out.resize(out.len() + zeros, b'0');
        out[start..].rotate_right(zeros);
    }
    let point = out.len() - scale;
    out.insert(point, b'.');
}

/// A finite number without an exponent.
#[inline]
pub fn float(number: f64, single: bool, out: &mut Vec<u8>) -> Option<()> {
    if !number.is_finite() {
        return None;
    }
    // Rust prints the shortest text that reads back the same, and never an exponent.
    if single { write!(out, "{}", number as f32) } else { write!(out, "{number}") }.ok()
}

/// A finite number as JSON writes it: with an exponent of two digits or more if it is tiny or huge.
pub fn json_float(number: f64, single: bool, out: &mut Vec<u8>) -> Option<()> {
    let size = number.abs();
    let (tiny, huge) = if single { (f64::from(1e-6f32), f64::from(1e21f32)) } else { (1e-6, 1e21) };
    if size == 0.0 || (tiny <= size && size < huge) || !size.is_finite() {
        return float(number, single, out);
    }
    let start = out.len();
    if single { write!(out, "{:e}", number as f32) } else { write!(out, "{number:e}") }.ok()?;
    let mark = start + out[start..].iter().position(|&byte| byte == b'e')? + 1;
    let negative = out.get(mark) == Some(&b'-');
    let exponent: u64 = std::str::from_utf8(&out[mark + usize::from(negative)..]).ok()?.parse().ok()?;
    out.truncate(mark);
    out.push(if negative { b'-' } else { b'+' });
    if exponent < 10 {
        out.push(b'0');
    }
    unsigned(exponent, out);
    Some(())
}

/// Is this text what a DECIMAL is printed as: digits without needless zeros in front, and perhaps a fraction?
pub fn is_decimal(text: &[u8]) -> bool {
    let size = text.strip_prefix(b"-").unwrap_or(text);
    let whole = size.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let fits = whole == 1 || (whole > 1 && size[0] != b'0');
    let fraction = match size.get(whole..) {
        Some([b'.', fraction @ ..]) => !fraction.is_empty() && fraction.iter().all(u8::is_ascii_digit),
        rest => rest.is_some_and(<[u8]>::is_empty),
    };
    fits && fraction
}

const MICROS_PER_SECOND: u64 = 1_000_000;
const SECONDS_PER_DAY: u64 = 86_400;
const FIRST_DAY: i64 = -719_162;
const LAST_DAY: i64 = 2_932_896;

/// A date of the years 1 to 9999, by its days since 1970.
pub fn date(days: i64, out: &mut Vec<u8>) -> Option<()> {
    if !(FIRST_DAY..=LAST_DAY).contains(&days) {
        return None;
    }
    // Counted from the first of March of the year 0, so that a leap day is a year's last.
    let days = (days + 719_468) as u64;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    two(year / 100, out);
    two(year % 100, out);
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day_of_year - (153 * shifted + 2) / 5 + 1, out);
    Some(())
}

/// A date and time of the years 1 to 9999, by its microseconds since 1970.
pub fn clock(micros: i64, digits: Option<usize>, out: &mut Vec<u8>) -> Option<()> {
    let day = (SECONDS_PER_DAY * MICROS_PER_SECOND) as i64;
    date(micros.div_euclid(day), out)?;
    out.push(b' ');
    let rest = micros.rem_euclid(day) as u64;
    two(rest / MICROS_PER_SECOND / 3600, out);
    minutes(rest, digits, out);
    Some(())
}

/// A TIME in microseconds.
pub fn time(micros: i64, digits: Option<usize>, out: &mut Vec<u8>) {
    if micros < 0 {
        out.push(b'-');
    }
    let size = micros.unsigned_abs();
    let hours = size / MICROS_PER_SECOND / 3600;
    if hours < 100 {
        two(hours, out)
    } else {
        unsigned(hours, out)
    }
    minutes(size, digits, out);
}

/// Minutes, seconds and their fraction: so many digits of it, or those that it needs.
fn minutes(micros: u64, digits: Option<usize>, out: &mut Vec<u8>) {
    let seconds = micros / MICROS_PER_SECOND;
    out.push(b':');
    two(seconds / 60 % 60, out);
    out.push(b':');
    two(seconds % 60, out);
    let fraction = micros % MICROS_PER_SECOND;
    if digits == Some(0) || (digits.is_none() && fraction == 0) {
        return;
    }
    out.push(b'.');
    two(fraction / 10_000, out);
    two(fraction / 100 % 100, out);
    two(fraction % 100, out);
    match digits {
        Some(digits) => out.truncate(out.len() - 6usize.saturating_sub(digits)),
        None => {
            while out.last() == Some(&b'0') {
                out.pop();
            }
        }
    }
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in Base64.
pub fn base64(data: &[u8], out: &mut Vec<u8>) {
    out.reserve(data.len().div_ceil(3) * 4);
    for chunk in data.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, &byte| word << 8 | u32::from(byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let sextet = (word >> (18 - 6 * place) & 63) as usize;
            out.push(if place <= chunk.len() { BASE64[sextet] } else { b'=' });
        }
    }
}
