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
        let first = self.byte()?;
        if first < 0x80 {
            return Some(u64::from(first));
        }
        let (mut number, mut shift) = (u64::from(first & 0x7f), 7);
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

    /// Pass these bytes if they are the next ones.
    #[inline]
    pub fn pass(&mut self, bytes: &[u8]) -> bool {
        let there = self.data[self.at..].starts_with(bytes);
        if there {
            self.at += bytes.len();
        }
        there
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
