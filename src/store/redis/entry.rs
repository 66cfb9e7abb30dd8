//! Representation of an entry at a server: the name of its key, and a hash with few fields.
//!
//! The name `longhaul:3:{3f…}:9a…` consists of format, scope and prefix. A Cluster assigns a key to
//! a node by the part in braces. So all keys of one scope are at one node, and a conversation is
//! read in one round trip.

use std::fmt::Write as _;

use bytes::Bytes;
use redis::{Cmd, Value};

use crate::store::durable::{Change, EntryWrite, NoteName, StoredEntry, WriteResult};
use crate::store::format::{FORMAT, MAX_SEALED_BYTES};
use longhaul_core::units::scope::{RecordKey, ScopeTag};

/// Prefix of all keys, different for each version. Two versions that alternate at one key would
/// treat each other's records as damaged.
const PREFIX: &str = "longhaul:3:";
const _: () = assert!(FORMAT == 3, "the prefix bears the format's version");
const MAX_RECORD_BYTES: usize = MAX_SEALED_BYTES;
/// Maximum number of fields of an entry: three marks, one record, and one note for each model. A
/// conversation changes its model now and then, not a hundred times at one prefix.
const MAX_FIELDS: u32 = 64;
/// Maximum bytes of all fields and values of an entry.
pub(super) const MAX_ENTRY_BYTES: usize =
    MAX_RECORD_BYTES + MAX_FIELDS as usize * (MAX_NOTE_BYTES + 64);
const MAX_NOTE_BYTES: usize = 24 << 10;

const RECORD: &str = "record";
const ADOPTED: &str = "adopted";
const SEEN: &str = "met";
const REFUSED: &str = "refused";
const NOTE: &str = "note:";

const WRITE_SCRIPT: &str = include_str!("write.lua");
const READ_SCRIPT: &str = include_str!("read.lua");

/// Script that holds the entries of one scope within a bound.
const BOUND_SCRIPT: &str = include_str!("bound.lua");

/// Builds the command that holds the entries of `scope` within `most` bytes, after `writes` of the scope.
pub(super) fn bound_command<'w>(
    scope: ScopeTag,
    writes: impl Iterator<Item = &'w EntryWrite>,
    (now_ms, ttl_ms, most): (u64, u64, u64),
) -> Cmd {
    let index = format!("{PREFIX}{{{}}}:index", hex(&scope.0));
    let mut command = redis::cmd("EVAL");
    command.arg(BOUND_SCRIPT).arg(2);
    command.arg(&index).arg(format!("{index}:sizes"));
    command.arg(now_ms).arg(ttl_ms).arg(most);
    for write in writes {
        let records = write.changes.iter().filter_map(Change::record);
        let bytes = records.map(Bytes::len);
        command.arg(redis_key(write.key)).arg(bytes.sum::<usize>());
    }
    command
}

pub(super) fn redis_key(key: RecordKey) -> String {
    let bytes = key.to_bytes();
    let (scope, chain) = bytes.split_at(key.scope().0.len());
    format!("{PREFIX}{{{}}}:{}", hex(scope), hex(chain))
}

pub(super) fn lease_redis_key(key: RecordKey) -> String {
    format!("{}:lease", redis_key(key))
}

/// Returns the `SCAN` pattern for the names of all entries, or of one scope. Leases match it too.
pub(super) fn scan_pattern(scope: Option<ScopeTag>) -> String {
    let scope = scope.map_or_else(|| "*".to_owned(), |scope| hex(&scope.0));
    format!("{PREFIX}{{{scope}}}:*")
}

pub(super) fn parse_key(name: &str) -> Option<RecordKey> {
    let (scope, chain) = name.strip_prefix(PREFIX)?.split_once(':')?;
    let scope = scope.strip_prefix('{')?.strip_suffix('}')?;
    let mut bytes = unhex(scope)?;
    bytes.extend(unhex(chain)?);
    RecordKey::from_bytes(&bytes)
}

/// Builds the command that reads one entry and renews its time to live. `None` keeps the remaining
/// time.
pub(super) fn read_command(name: &str, ttl_ms: Option<u64>) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(READ_SCRIPT).arg(1).arg(name);
    let ttl_ms = ttl_ms.unwrap_or(0);
    command.arg(ttl_ms).arg(MAX_FIELDS).arg(MAX_ENTRY_BYTES);
    command
}

/// Parses a server's answer to [`read_command`]. Returns `None` if it is not an entry of longhaul's.
pub(super) fn parse_entry(answer: Value) -> Option<StoredEntry> {
    let mut entry = StoredEntry::default();
    let mut filled = false;
    // A map, or in the older protocol a flat list.
    let fields: Vec<(Vec<u8>, Vec<u8>)> = redis::from_redis_value(answer).ok()?;
    for (field, value) in fields {
        filled |= set_field(&mut entry, &field, value).is_some();
    }
    filled.then_some(entry)
}

fn set_field(entry: &mut StoredEntry, field: &[u8], value: Vec<u8>) -> Option<()> {
    match str::from_utf8(field).ok()? {
        RECORD if value.len() <= MAX_RECORD_BYTES => entry.record = Some(value.into()),
        ADOPTED => entry.adopted = true,
        SEEN => entry.seen = true,
        REFUSED => entry.refused = true,
        field => {
            let name = unhex(field.strip_prefix(NOTE)?)?;
            let name = NoteName(name.try_into().ok()?);
            if value.len() > MAX_NOTE_BYTES || entry.notes.len() >= MAX_FIELDS as usize {
                return None;
            }
            entry.notes.push((name, value.into()));
        }
    }
    Some(())
}

pub(super) fn write_command(write: &EntryWrite, ttl_ms: u64) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(WRITE_SCRIPT).arg(1).arg(redis_key(write.key));
    command.arg(ttl_ms).arg(MAX_FIELDS).arg(MAX_RECORD_BYTES);
    for change in &write.changes {
        match change {
            Change::Adopted => command.arg("mark").arg(ADOPTED),
            Change::Discard(record) => command.arg("discard").arg(&record[..]),
            Change::Seen => command.arg("mark").arg(SEEN),
            Change::Note(_, value) if value.len() > MAX_NOTE_BYTES => &mut command,
            Change::Note(name, value) => {
                let field = format!("{NOTE}{}", hex(&name.0));
                command.arg("note").arg(field).arg(&value[..])
            }
            Change::Record(record) if record.len() > MAX_RECORD_BYTES => &mut command,
            Change::Record(record) => command.arg("record").arg(&record[..]),
            Change::Refused => command.arg("mark").arg(REFUSED),
        };
    }
    command
}

pub(super) fn parse_write_result(write: &EntryWrite, answer: Value) -> Option<WriteResult> {
    let Value::Array(answer) = answer else {
        return None;
    };
    let mut answer = answer.into_iter();
    let (Some(Value::Int(ours)), Some(Value::Int(adopted))) = (answer.next(), answer.next()) else {
        return None;
    };
    let mut records = write.changes.iter().rev().filter_map(Change::record);
    let given = records.find(|record| record.len() <= MAX_RECORD_BYTES).cloned();
    let record = match (ours, answer.next()) {
        (1, _) => given,
        (_, Some(Value::BulkString(theirs))) => Some(Bytes::from(theirs)),
        _ => return None,
    };
    Some(WriteResult { record, adopted: adopted == 1 })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let byte = |pair: &[u8]| {
        let is_byte = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
        let digits = str::from_utf8(pair).ok().filter(|_| is_byte)?;
        u8::from_str_radix(digits, 16).ok()
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.into())
    }

    fn some_key() -> RecordKey {
        let bytes: Vec<u8> = (0..=u8::MAX).take(RecordKey::BYTES).collect();
        RecordKey::from_bytes(&bytes).unwrap()
    }

    #[test]
    fn redis_key_parses_back_to_its_record_key() {
        let name = redis_key(some_key());
        assert!(name.starts_with("longhaul:3:{0001020304050607}:0809"), "{name}");
        assert_eq!(parse_key(&name), Some(some_key()));
        for other in [
            lease_redis_key(some_key()),
            name.replace(":3:", ":2:"),
            name.replace('{', ""),
            format!("{name}0"),
            String::new(),
        ] {
            assert_eq!(parse_key(&other), None, "{other}");
        }
    }

    #[test]
    fn foreign_or_malformed_replies_parse_to_no_entry() {
        for answer in [
            Value::Nil,
            Value::Okay,
            Value::Array(Vec::new()),
            Value::Array(vec![bulk("record"), Value::Int(3)]),
            Value::Array(vec![bulk("something"), bulk("else")]),
            Value::Array(vec![bulk("note:12"), bulk("short name")]),
            Value::Array(vec![bulk("record"), Value::BulkString(vec![0; MAX_RECORD_BYTES + 1])]),
        ] {
            assert_eq!(parse_entry(answer.clone()), None, "{answer:?}");
        }
    }

    #[test]
    fn an_entry_is_read_in_both_protocols() {
        let fields =
            [("record", "r"), ("adopted", "1"), ("new", "to us"), ("note:0001020304050607", "n")];
        let flat = fields.iter().flat_map(|(f, v)| [bulk(f), bulk(v)]).collect();
        let paired = fields.iter().map(|(f, v)| (bulk(f), bulk(v))).collect();
        let expect = StoredEntry {
            record: Some("r".into()),
            adopted: true,
            notes: vec![(NoteName([0, 1, 2, 3, 4, 5, 6, 7]), "n".into())],
            ..StoredEntry::default()
        };
        assert_eq!(parse_entry(Value::Array(flat)), Some(expect.clone()));
        assert_eq!(parse_entry(Value::Map(paired)), Some(expect));
    }
}
