//! Values as text. Each function takes the usual form of a value only; `None` leaves the message to Python.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// The digits of eight bytes, each in its byte, where these differ from a pattern by less than ten where it has a `0`,
/// and by nothing elsewhere.
#[inline]
fn eight(text: [u8; 8], pattern: [u8; 8]) -> Option<[u8; 8]> {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let found = u64::from_le_bytes(text) ^ u64::from_le_bytes(pattern);
    // What is added to a byte sets its highest bit if the byte is more than it may be.
    let room = u64::from_le_bytes(pattern.map(|byte| if byte == b'0' { 0x80 - 10 } else { 0x80 - 1 }));
    ((found | found.wrapping_add(room)) & HIGH == 0).then(|| found.to_le_bytes())
}

/// Eight digits as a number.
#[inline]
fn eight_digits(text: [u8; 8]) -> Option<u64> {
    let digits = u64::from_le_bytes(eight(text, *b"00000000")?);
    let pairs = (digits.wrapping_mul(10) + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff)
}

/// The most digits that always fit in 64 bits.
const MOST_DIGITS: usize = 19;

/// Digits behind those of a number; it must have room for them.
#[inline]
fn appended(mut number: u64, mut text: &[u8]) -> Option<u64> {
    while let Some((&chunk, rest)) = text.split_first_chunk() {
        number = number * 100_000_000 + eight_digits(chunk)?;
        text = rest;
    }
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u64::from(digit);
    }
    Some(number)
}

/// Decimal digits that make an unsigned integer of 64 bits.
#[inline]
pub fn unsigned(text: &[u8]) -> Option<u64> {
    match text.len() {
        1..=MOST_DIGITS => appended(0, text),
        20 => {
            let (digits, last) = text.split_at(MOST_DIGITS);
            appended(0, digits)?.checked_mul(10)?.checked_add(appended(0, last)?)
        }
        _ => None,
    }
}

/// Decimal digits, perhaps behind a minus, that make a signed integer of 64 bits.
pub fn signed(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(unsigned(digits)?),
        None => i64::try_from(unsigned(text)?).ok(),
    }
}

/// The number of digits at the front of a text.
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

const MOST_FLOAT_DIGITS: usize = 400;
const MOST_EXPONENT_DIGITS: usize = 3;

/// A finite number, perhaps with an exponent.
pub fn float(text: &[u8]) -> Option<f64> {
    let mut rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    rest = &rest[whole..];
    let mut longest = whole;
    if let Some(behind) = rest.strip_prefix(b".") {
        let fraction = digits(behind);
        if fraction == 0 {
            return None;
        }
        longest = longest.max(fraction);
        rest = &behind[fraction..];
    }
    if whole == 0 || longest > MOST_FLOAT_DIGITS {
        return None;
    }
    if let [b'e' | b'E', behind @ ..] = rest {
        let exponent = behind.strip_prefix(b"-").or_else(|| behind.strip_prefix(b"+")).unwrap_or(behind);
        if exponent.is_empty() || exponent.len() > MOST_EXPONENT_DIGITS || digits(exponent) != exponent.len() {
            return None;
        }
    } else if !rest.is_empty() {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    number.is_finite().then_some(number)
}

/// A FLOAT of a number, if it has one.
pub fn single(number: f64) -> Option<f32> {
    let found = number as f32;
    found.is_finite().then_some(found)
}

const MOST_VECTOR_BYTES: usize = 1 << 20;

/// The numbers of a VECTOR, in brackets and with commas between them.
pub fn vector(text: &[u8], numbers: &mut Vec<f32>) -> Option<()> {
    let inner = text.strip_prefix(b"[")?.strip_suffix(b"]")?;
    if text.len() > MOST_VECTOR_BYTES {
        return None;
    }
    for number in inner.split(|&byte| byte == b',').filter(|_| !inner.is_empty()) {
        numbers.push(single(float(number)?)?);
    }
    Some(())
}

/// What stands before and behind the point of a decimal number, which usually has so many digits behind it, and whether
/// there is a minus before them.
#[inline]
fn decimal_parts(text: &[u8], usual: usize) -> Option<(bool, &[u8], &[u8])> {
    let (negative, size) = match text.strip_prefix(b"-") {
        Some(size) => (true, size),
        None => (false, text),
    };
    let place = size.len().checked_sub(usual + 1).filter(|&place| size[place] == b'.');
    let (whole, fraction) = match place.or_else(|| size.iter().position(|&byte| byte == b'.')) {
        Some(place) => (&size[..place], &size[place + 1..]),
        None => (size, &[][..]),
    };
    (!whole.is_empty() && (!fraction.is_empty() || whole.len() == size.len())).then_some((negative, whole, fraction))
}

const POWERS: [i128; 39] = {
    let mut powers = [1; 39];
    let mut place = 1;
    while place < powers.len() {
        powers[place] = powers[place - 1] * 10;
        place += 1;
    }
    powers
};

/// Ten to this power.
#[inline]
pub fn power(exponent: u8) -> Option<i128> {
    POWERS.get(usize::from(exponent)).copied()
}

/// A decimal number in units of its last digit.
#[inline]
pub fn decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let most = power(precision)?;
    let (precision, scale) = (usize::from(precision), usize::from(scale));
    let (negative, whole, fraction) = decimal_parts(text, scale)?;
    if whole.len() > precision.saturating_sub(scale).max(1) || fraction.len() > scale {
        return None;
    }
    let number = if whole.len() + scale <= MOST_DIGITS {
        let digits = appended(appended(0, whole)?, fraction)?;
        i128::from(digits) * POWERS[scale - fraction.len()]
    } else {
        let mut number = 0i128;
        for chunk in whole.chunks(MOST_DIGITS).chain(fraction.chunks(MOST_DIGITS)) {
            number = number.checked_mul(POWERS[chunk.len()])?.checked_add(i128::from(appended(0, chunk)?))?;
        }
        number.checked_mul(POWERS[scale - fraction.len()])?
    };
    (number < most).then_some(if negative { -number } else { number })
}

const MOST_WHOLE_DIGITS: usize = 65;
const MOST_FRACTION_DIGITS: usize = 30;

/// Is this a decimal number as a Decimal prints it: without needless zeros in front?
pub fn is_plain_decimal(text: &[u8]) -> bool {
    decimal_parts(text, 0).is_some_and(|(_, whole, fraction)| {
        digits(whole) == whole.len()
            && digits(fraction) == fraction.len()
            && whole.len() <= MOST_WHOLE_DIGITS
            && fraction.len() <= MOST_FRACTION_DIGITS
            && (whole.len() == 1 || whole.first() != Some(&b'0'))
    })
}

/// Two digits that were read.
#[inline]
fn two(tens: u8, ones: u8) -> u32 {
    u32::from(tens) * 10 + u32::from(ones)
}

/// A date of the calendar, or one that it does not have.
pub enum Day {
    /// Days since 1970.
    Known(i32),
    Impossible,
}

/// A date: `2024-02-29`. A year 0 with a month and a day is left to Python.
pub fn day(text: &[u8]) -> Option<Day> {
    let (&front, &[tens, ones]) = text.split_first_chunk()? else { return None };
    let [y0, y1, y2, y3, _, m0, m1, _] = eight(front, *b"0000-00-")?;
    let (year, month) = (two(y0, y1) * 100 + two(y2, y3), two(m0, m1));
    let day = u32::try_from(appended(0, &[tens, ones])?).ok()?;
    if month > 12 || day > 31 {
        return None;
    }
    if month == 0 || day == 0 || day > month_length(year, month) {
        return Some(Day::Impossible);
    }
    (year > 0).then(|| Day::Known(days_since_1970(year, month, day)))
}

fn month_length(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counted from March on, so that a leap day is a year's last.
fn days_since_1970(year: u32, month: u32, day: u32) -> i32 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    days as i32 - 719_468
}

/// The fraction of a second in microseconds: nothing, or a point and up to six digits.
fn fraction(text: &[u8]) -> Option<i64> {
    let Some(digits) = text.strip_prefix(b".") else {
        return text.is_empty().then_some(0);
    };
    if digits.is_empty() || digits.len() > 6 {
        return None;
    }
    let mut micros = 0;
    for place in 0..6 {
        let digit = digits.get(place).map_or(0, |byte| byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        micros = micros * 10 + i64::from(digit);
    }
    Some(micros)
}

/// Hours, minutes and seconds, perhaps with a fraction, in microseconds; the hours have two digits.
#[inline]
fn clock(text: &[u8]) -> Option<(u32, i64)> {
    let (&front, rest) = text.split_first_chunk()?;
    let [h0, h1, _, m0, m1, _, s0, s1] = eight(front, *b"00:00:00")?;
    let (hours, minutes, seconds) = (two(h0, h1), two(m0, m1), two(s0, s1));
    if minutes > 59 || seconds > 59 {
        return None;
    }
    Some((hours, i64::from((hours * 60 + minutes) * 60 + seconds) * MICROS_PER_SECOND + fraction(rest)?))
}

/// A moment of the calendar, or one that it does not have.
pub enum Moment {
    /// Microseconds since 1970.
    Known(i64),
    Impossible,
}

/// A date and time: `2024-02-29 12:00:00.500`.
pub fn moment(text: &[u8]) -> Option<Moment> {
    let (date, rest) = text.split_at_checked(10)?;
    let (hours, clock) = clock(rest.strip_prefix(b" ")?)?;
    if hours > 23 {
        return None;
    }
    Some(match day(date)? {
        Day::Known(days) => Moment::Known(i64::from(days) * MICROS_PER_DAY + clock),
        Day::Impossible => Moment::Impossible,
    })
}

/// A TIME in microseconds: `-838:59:59.000`.
pub fn time(text: &[u8]) -> Option<i64> {
    let (negative, size) = match text.strip_prefix(b"-") {
        Some(size) => (true, size),
        None => (false, text),
    };
    let (hundreds, size) = match size {
        [hundreds, rest @ ..] if rest.get(1).is_some_and(u8::is_ascii_digit) => (appended(0, &[*hundreds])?, rest),
        _ => (0, size),
    };
    let micros = hundreds as i64 * 100 * 3600 * MICROS_PER_SECOND + clock(size)?.1;
    Some(if negative { -micros } else { micros })
}
