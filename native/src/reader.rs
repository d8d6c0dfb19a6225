//! Binary values as Avro and Craft write them: integers of seven bits in a byte, bytes behind their length.

/// Where the reader is.
pub struct Reader<'a> {
    pub data: &'a [u8],
    pub at: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// An unsigned integer of 64 bits, seven in a byte.
    #[inline]
    pub fn unsigned(&mut self) -> Option<u64> {
        let first = *self.data.get(self.at)?;
        if first < 0x80 {
            self.at += 1;
            return Some(u64::from(first));
        }
        let (mut number, mut shift) = (0, 0);
        if let Some(&word) = self.data.get(self.at..).and_then(<[u8]>::first_chunk) {
            let word = u64::from_le_bytes(word);
            let ends = !word & ENDS;
            // The bits up to the first byte that ends a number; all if none does.
            number = packed(word & (ends ^ ends.wrapping_sub(1)));
            if ends != 0 {
                self.at += ends.trailing_zeros() as usize / 8 + 1;
                return Some(number);
            }
            self.at += 8;
            shift = 56;
        }
        loop {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
            shift += 7;
        }
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.data.len()
    }

    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    #[inline]
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.data.get(self.at..self.at.checked_add(length)?)?;
        self.at += length;
        Some(taken)
    }

    #[inline]
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.signed()?).ok()?;
        self.take(length)
    }

    #[inline]
    pub fn boolean(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }
}

/// The bits that are set in all bytes of a number but its last.
const ENDS: u64 = 0x8080_8080_8080_8080;

/// The low seven bits of each of eight bytes.
#[inline]
fn packed(word: u64) -> u64 {
    let word = word & !ENDS;
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4
}

/// Do these bytes begin with a text? It is short, so it is compared word by word and not by a call.
#[inline]
pub fn begins(bytes: &[u8], text: &[u8]) -> bool {
    let Some(bytes) = bytes.get(..text.len()) else { return false };
    match (bytes.first_chunk(), bytes.last_chunk(), text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last), Some(text_first), Some(text_last)) if text.len() <= 16 => {
            let same = |one: &[u8; 8], other: &[u8; 8]| u64::from_le_bytes(*one) == u64::from_le_bytes(*other);
            same(first, text_first) && same(last, text_last)
        }
        (Some(_), ..) => bytes == text,
        _ => bytes.iter().zip(text).all(|(one, other)| one == other),
    }
}
