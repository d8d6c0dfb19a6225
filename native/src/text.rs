//! Values as text. Each function takes the usual form of a value only; `None` leaves the message to Python.

const MICROS_PER_SECOND: i64 = 1_000_000;
const MICROS_PER_DAY: i64 = 86_400 * MICROS_PER_SECOND;

/// Decimal digits that make an unsigned integer of 64 bits.
pub fn unsigned(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    let mut number = 0u64;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(number)
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

/// The whole and the fractional digits of a decimal number, and whether there is a minus before them.
fn decimal_parts(text: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let (negative, size) = match text.strip_prefix(b"-") {
        Some(size) => (true, size),
        None => (false, text),
    };
    let whole = digits(size);
    let (whole, rest) = size.split_at(whole);
    let fraction: &[u8] = match rest.strip_prefix(b".") {
        Some([]) => return None,
        Some(fraction) => fraction,
        None if rest.is_empty() => b"",
        None => return None,
    };
    (!whole.is_empty() && digits(fraction) == fraction.len()).then_some((negative, whole, fraction))
}

/// A decimal number in units of its last digit.
pub fn decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (negative, whole, fraction) = decimal_parts(text)?;
    let (precision, scale) = (usize::from(precision), usize::from(scale));
    if whole.len() > precision.saturating_sub(scale).max(1) || fraction.len() > scale {
        return None;
    }
    let mut number = 0i128;
    for &byte in whole.iter().chain(fraction) {
        number = number.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
    }
    for _ in fraction.len()..scale {
        number = number.checked_mul(10)?;
    }
    if number >= 10i128.pow(u32::try_from(precision).ok()?) {
        return None;
    }
    Some(if negative { -number } else { number })
}

const MOST_WHOLE_DIGITS: usize = 65;
const MOST_FRACTION_DIGITS: usize = 30;

/// Is this a decimal number as a Decimal prints it: without needless zeros in front?
pub fn is_plain_decimal(text: &[u8]) -> bool {
    decimal_parts(text).is_some_and(|(_, whole, fraction)| {
        whole.len() <= MOST_WHOLE_DIGITS
            && fraction.len() <= MOST_FRACTION_DIGITS
            && (whole.len() == 1 || whole.first() != Some(&b'0'))
    })
}

fn number<const N: usize>(text: &[u8]) -> Option<u32> {
    let text: &[u8; N] = text.try_into().ok()?;
    let mut number = 0;
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + u32::from(digit);
    }
    Some(number)
}

/// A date of the calendar, or one that it does not have.
pub enum Day {
    /// Days since 1970.
    Known(i32),
    Impossible,
}

/// A date: `2024-02-29`. A year 0 with a month and a day is left to Python.
pub fn day(text: &[u8]) -> Option<Day> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1] = *text else {
        return None;
    };
    let year = number::<4>(&[y0, y1, y2, y3])?;
    let month = number::<2>(&[m0, m1])?;
    let day = number::<2>(&[d0, d1])?;
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

fn minutes_and_seconds(text: &[u8]) -> Option<i64> {
    let [b':', m0, m1, b':', s0, s1, rest @ ..] = text else {
        return None;
    };
    let (minutes, seconds) = (number::<2>(&[*m0, *m1])?, number::<2>(&[*s0, *s1])?);
    if minutes > 59 || seconds > 59 {
        return None;
    }
    Some(i64::from(minutes * 60 + seconds) * MICROS_PER_SECOND + fraction(rest)?)
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
    let [b' ', h0, h1, clock @ ..] = rest else {
        return None;
    };
    let hours = number::<2>(&[*h0, *h1])?;
    if hours > 23 {
        return None;
    }
    let clock = i64::from(hours) * 3600 * MICROS_PER_SECOND + minutes_and_seconds(clock)?;
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
    let (hours, rest) = match digits(size) {
        2 => (number::<2>(&size[..2])?, &size[2..]),
        3 => (number::<3>(&size[..3])?, &size[3..]),
        _ => return None,
    };
    let micros = i64::from(hours) * 3600 * MICROS_PER_SECOND + minutes_and_seconds(rest)?;
    Some(if negative { -micros } else { micros })
}
