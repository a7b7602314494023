//! Names and values of HTTP headers, and texts that become part of a regular expression.

/// Longest name or value that gateways take, in bytes.
const MAX_LEN: usize = 16_384;

/// True for a token of RFC 9110: the name of a header, or a method.
pub(crate) fn is_token(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    (1..=MAX_LEN).contains(&text.len()) && text.bytes().all(plain)
}

/// True for text that can stand in a header: no control characters and not too long.
pub(crate) fn is_header_value(text: &str) -> bool {
    let plain = |b: u8| b == b'\t' || (b >= b' ' && b != 0x7f);
    text.len() <= MAX_LEN && text.bytes().all(plain)
}

/// True for `host[:port]` as a request carries it.
pub(crate) fn is_authority(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:[]".contains(&b);
    (1..=300).contains(&text.len()) && text.bytes().all(plain)
}

/// True for a character that means something in a regular expression.
pub(crate) fn is_special(c: char) -> bool {
    "\\.+*?()|[]{}^$".contains(c)
}

/// The regular expression that matches exactly `text`.
pub(crate) fn literal(text: &str) -> String {
    let mut expression = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if is_special(c) {
            expression.push('\\');
        }
        expression.push(c);
    }
    expression
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        assert!(is_token("X-Tenant") && !is_token("") && !is_token("a b") && !is_token(":path"));
        assert!(is_header_value("a b\t%c") && !is_header_value("a\r\nb") && !is_header_value("\0"));
        assert!(is_authority("a.test:80") && is_authority("[::1]:80"));
        assert!(!is_authority("a/b") && !is_authority("$host") && !is_authority(""));
        assert_eq!(literal("/v1.0/a-b"), r"/v1\.0/a-b");
    }
}
