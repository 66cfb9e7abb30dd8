//! Decodes the spans of an export, by the field numbers of OTLP's own files
//! (<https://github.com/open-telemetry/opentelemetry-proto>, `trace.proto` and `common.proto`).

use std::collections::BTreeMap;

/// Values of a span's `kind`.
const SERVER: u64 = 2;
const CLIENT: u64 = 3;
/// The status code of a failure.
const ERROR: u64 = 2;

/// A decoded span.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: String,
    pub(super) id: String,
    /// The parent span's id; empty for the root of a trace.
    pub(super) parent: String,
    pub(super) state: String,
    pub(super) name: String,
    kind: u64,
    /// End time, in nanoseconds since 1970.
    pub(super) ended: u64,
    pub(super) attributes: BTreeMap<String, Said>,
    pub(super) is_error: bool,
    /// Attributes of the resource that sent the span.
    pub(super) resource: BTreeMap<String, Said>,
}

/// The value of an attribute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Said {
    Flag(bool),
    Number(u64),
    Other,
    Text(String),
}

impl From<&str> for Said {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<u64> for Said {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<bool> for Said {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl Span {
    pub(super) fn is_of_server(&self) -> bool {
        self.kind == SERVER
    }

    pub(super) fn is_of_client(&self) -> bool {
        self.kind == CLIENT
    }

    /// Returns the value of an attribute, if present.
    pub(super) fn says(&self, key: &str) -> Option<&Said> {
        self.attributes.get(key)
    }

    /// Returns the text of an attribute; empty if absent.
    pub(super) fn text(&self, key: &str) -> &str {
        match self.says(key) {
            Some(Said::Text(text)) => text,
            None => "",
            Some(other) => panic!("{key} is {other:?}"),
        }
    }
}

/// A field's value on the wire.
#[derive(Clone, Copy, Debug)]
enum Field<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

impl<'b> Field<'b> {
    fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) => panic!("a number is expected"),
        }
    }

    fn bytes(self) -> &'b [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Number(_) => panic!("bytes are expected"),
        }
    }

    fn text(self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }

    fn hex(self) -> String {
        let halves = self.bytes().iter().flat_map(|byte| [byte >> 4, byte & 15]);
        let digit = |half: u8| char::from_digit(half.into(), 16).unwrap();
        halves.map(digit).collect()
    }
}

/// Returns the fields of a message, each with its number.
fn fields(mut bytes: &[u8]) -> Vec<(u64, Field<'_>)> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let field = match key & 7 {
            0 => Field::Number(varint(&mut bytes)),
            1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
            2 => {
                let length = usize::try_from(varint(&mut bytes)).unwrap();
                Field::Bytes(take(&mut bytes, length))
            }
            5 => {
                let four = take(&mut bytes, 4).try_into().unwrap();
                Field::Number(u32::from_le_bytes(four).into())
            }
            other => panic!("no wire type {other} is in use"),
        };
        found.push((key >> 3, field));
    }
    found
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = take(bytes, 1)[0];
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

fn take<'b>(bytes: &mut &'b [u8], count: usize) -> &'b [u8] {
    let (front, rest) = bytes.split_at(count);
    *bytes = rest;
    front
}

/// Returns the fields with this number.
fn of(bytes: &[u8], number: u64) -> impl Iterator<Item = Field<'_>> {
    let all = fields(bytes).into_iter();
    all.filter_map(move |(other, field)| (other == number).then_some(field))
}

/// Decodes the spans of one export.
pub(super) fn spans(export: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for sender in of(export, 1) {
        let resource =
            of(sender.bytes(), 1).flat_map(|resource| attributes(resource.bytes(), 1)).collect();
        for scope in of(sender.bytes(), 2) {
            spans.extend(of(scope.bytes(), 2).map(|one| span(one.bytes(), &resource)));
        }
    }
    spans
}

fn span(bytes: &[u8], resource: &BTreeMap<String, Said>) -> Span {
    let field = |number| of(bytes, number).last();
    let text = |number| field(number).map(Field::text).unwrap_or_default();
    let hex = |number| field(number).map(Field::hex).unwrap_or_default();
    let number = |number| field(number).map(Field::number).unwrap_or_default();
    let said: Vec<_> = attributes(bytes, 9);
    let attributes: BTreeMap<_, _> = said.iter().cloned().collect();
    assert_eq!(said.len(), attributes.len(), "said twice: {said:?}");
    Span {
        trace: hex(1),
        id: hex(2),
        state: text(3),
        parent: hex(4),
        name: text(5),
        kind: number(6),
        ended: number(8),
        attributes,
        is_error: field(15).is_some_and(|status| {
            assert_eq!(of(status.bytes(), 2).count(), 0, "a status has no words");
            of(status.bytes(), 3).any(|code| code.number() == ERROR)
        }),
        resource: resource.clone(),
    }
}

fn attributes(bytes: &[u8], number: u64) -> Vec<(String, Said)> {
    of(bytes, number)
        .map(|pair| {
            let key = of(pair.bytes(), 1).map(Field::text).last().unwrap();
            let value = of(pair.bytes(), 2).last().unwrap();
            let said = match fields(value.bytes())[..] {
                [(1, text)] => Said::Text(text.text()),
                [(2, flag)] => Said::Flag(flag.number() == 1),
                [(3, number)] => Said::Number(number.number()),
                _ => Said::Other,
            };
            (key, said)
        })
        .collect()
}
