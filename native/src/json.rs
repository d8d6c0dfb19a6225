//! JSON as TiCDC writes it: without blanks. The text must be known to be UTF-8.

use crate::reader::begins;

/// Where the reader is in a text.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub text: &'a [u8],
    pub at: usize,
}

/// What a string holds: as it stands in the text, or without its escapes in a buffer.
pub enum Str<'a> {
    Plain(&'a [u8]),
    Unescaped,
}

impl<'a> Str<'a> {
    pub fn get<'b>(&'b self, buffer: &'b [u8]) -> &'b [u8] {
        match self {
            Str::Plain(text) => text,
            Str::Unescaped => buffer,
        }
    }
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    pub fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Pass a text, if it stands here.
    #[inline]
    pub fn pass(&mut self, text: &[u8]) -> bool {
        let passes = begins(self.rest(), text);
        if passes {
            self.at += text.len();
        }
        passes
    }

    /// Pass a text that must stand here.
    #[inline]
    pub fn expect(&mut self, text: &[u8]) -> Option<()> {
        self.pass(text).then_some(())
    }

    /// A string. Its value is in `buffer` if it has escapes.
    #[inline]
    pub fn string(&mut self, buffer: &mut Vec<u8>) -> Option<Str<'a>> {
        self.expect(b"\"")?;
        let start = self.at;
        let end = special(self.text, start);
        match *self.text.get(end)? {
            b'"' => {
                self.at = end + 1;
                Some(Str::Plain(&self.text[start..end]))
            }
            b'\\' => {
                self.unescape(start, end, buffer)?;
                Some(Str::Unescaped)
            }
            _ => None,
        }
    }

    fn unescape(&mut self, start: usize, mut end: usize, buffer: &mut Vec<u8>) -> Option<()> {
        buffer.clear();
        buffer.extend_from_slice(&self.text[start..end]);
        loop {
            match *self.text.get(end)? {
                b'"' => {
                    self.at = end + 1;
                    return Some(());
                }
                b'\\' => {
                    let escape = *self.text.get(end + 1)?;
                    end += 2;
                    match escape {
                        b'"' | b'\\' | b'/' => buffer.push(escape),
                        b'n' => buffer.push(b'\n'),
                        b'r' => buffer.push(b'\r'),
                        b't' => buffer.push(b'\t'),
                        b'b' => buffer.push(8),
                        b'f' => buffer.push(12),
                        b'u' => {
                            let mut code = self.hex(end)?;
                            end += 4;
                            if (0xd800..0xdc00).contains(&code) && self.text.get(end..end + 2) == Some(b"\\u") {
                                let low = self.hex(end + 2)?;
                                if !(0xdc00..0xe000).contains(&low) {
                                    return None;
                                }
                                end += 6;
                                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                            }
                            let character = char::from_u32(code)?;
                            buffer.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        }
                        _ => return None,
                    }
                }
                byte if byte < 0x20 => return None,
                _ => {}
            }
            let next = special(self.text, end);
            buffer.extend_from_slice(&self.text[end..next]);
            end = next;
        }
    }

    fn hex(&self, at: usize) -> Option<u32> {
        let digits = self.text.get(at..at + 4)?;
        digits.iter().try_fold(0, |code, &digit| Some(code << 4 | (digit as char).to_digit(16)?))
    }

    /// The digits of an integer without needless zeros, and its minus.
    #[inline]
    pub fn integer(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.pass(b"-");
        let first = self.peek()?;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        let size = self.at - start - usize::from(self.text[start] == b'-');
        let fits = size > 0 && (first != b'0' || size == 1);
        fits.then(|| &self.text[start..self.at])
    }

    /// The text of a number.
    #[inline]
    pub fn number(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        self.integer()?;
        if self.pass(b".") {
            self.digits()?;
        }
        if self.pass(b"e") || self.pass(b"E") {
            if !self.pass(b"-") {
                self.pass(b"+");
            }
            self.digits()?;
        }
        Some(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Option<()> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    pub fn boolean(&mut self) -> Option<bool> {
        if self.pass(b"true") { Some(true) } else { self.expect(b"false").map(|()| false) }
    }

    /// The members of an object; `each` reads a value, and gets its name and where that begins.
    pub fn members(
        &mut self,
        buffer: &mut Vec<u8>,
        mut each: impl FnMut(&mut Cursor<'a>, usize, Vec<u8>, &mut Vec<u8>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b"{")?;
        if self.pass(b"}") {
            return Some(());
        }
        loop {
            let start = self.at;
            let name = self.string(buffer)?.get(buffer).to_vec();
            self.expect(b":")?;
            each(self, start, name, buffer)?;
            if !self.pass(b",") {
                return self.expect(b"}");
            }
        }
    }
}

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The first quote, backslash or control character from a place on; the text's end if there is none.
#[inline]
fn special(text: &[u8], mut at: usize) -> usize {
    while let Some(bytes) = text.get(at..at + 8) {
        let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let zero_at = |byte: u8| {
            let found = word ^ (LOW * u64::from(byte));
            found.wrapping_sub(LOW) & !found
        };
        let control = word.wrapping_sub(LOW * 0x20) & !word;
        let found = (zero_at(b'"') | zero_at(b'\\') | control) & HIGH;
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    while text.get(at).is_some_and(|&byte| byte != b'"' && byte != b'\\' && byte >= 0x20) {
        at += 1;
    }
    at
}
