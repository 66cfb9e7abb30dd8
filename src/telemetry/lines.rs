//! Lines on their way out: many in one write, and no request waits for whoever reads them.
//!
//! A write of its own for each line is dearer than all else that is done for it. So a line of little
//! weight waits a moment for those behind it; one that somebody should see goes at once, with all
//! that came before it.
//!
//! Only the thread `log` writes. Where nobody takes what it writes (a terminal that stands still, a
//! full pipe), it alone waits: lines that find no room until it goes on are lost, and counted.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::lock::Mutex;

/// How long a line waits for others at the most: nobody who watches sees it.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// With so many bytes none waits for others.
const GATHER_BYTES: usize = 64 * 1024;

/// How many bytes wait at the most, but for one line: some thousand lines, more than come while a
/// reader that reads is busy elsewhere.
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// How long one who wants a line seen, and the end, wait until it is written. Past this nobody reads, and
/// no other waits until somebody does.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug)]
pub(super) struct LogWriter(Arc<LogBuffer>);

#[derive(Debug, Default)]
struct LogBuffer {
    pending: Mutex<PendingLines>,
    /// A line waits where none did, or none will wait for others any more.
    has_lines: Condvar,
    /// What was taken is written.
    has_written: Condvar,
}

#[derive(Debug, Default)]
struct PendingLines {
    text: Vec<u8>,
    /// Nothing of the text waits for others.
    is_urgent: bool,
    /// How often a text was taken to be written, and how often it was.
    taken_batches: u64,
    written_batches: u64,
    /// Somebody waited in vain for what is being written.
    is_stalled: bool,
    /// Lines that found no room since it was last told.
    dropped_lines: u64,
}

/// While it is there, lines may wait; those that do are written when it goes.
#[must_use = "lines that wait are lost without it"]
pub(crate) struct LogFlushGuard(Arc<LogBuffer>);

/// The way of one line.
pub(super) struct LineWriter<'l> {
    buffer: &'l LogBuffer,
    is_urgent: bool,
}

impl LogWriter {
    /// None yet, on their way to `out`. How many were lost is told by `tell`, in a line of its own.
    ///
    /// # Errors
    /// There is no thread to write them.
    pub(super) fn spawn(
        out: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<(Self, LogFlushGuard)> {
        let shared = Arc::new(LogBuffer::default());
        let lines = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".into());
        thread.spawn(move || lines.write_loop(out, tell))?;
        Ok((Self(Arc::clone(&shared)), LogFlushGuard(shared)))
    }
}

impl LogBuffer {
    /// Writes what comes, for as long as the process lives.
    fn write_loop(&self, mut out: impl Write, tell: impl Fn(u64)) {
        let nothing = |waiting: &mut PendingLines| waiting.text.is_empty();
        let gathers =
            |waiting: &mut PendingLines| !waiting.is_urgent && waiting.text.len() < GATHER_BYTES;
        loop {
            let waiting = self.has_lines.wait_while(self.pending.lock(), nothing);
            // As [`Mutex`] does it.
            let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let gathered = self
                .has_lines
                .wait_timeout_while(waiting, GATHER_TIME, gathers);
            let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            let text = mem::take(&mut waiting.text);
            let lost = mem::take(&mut waiting.dropped_lines);
            waiting.is_urgent = false;
            waiting.taken_batches += 1;
            // Who tells of it in this thread must not wait for it.
            waiting.is_stalled |= lost > 0;
            drop(waiting);
            // Now there is room for it.
            if lost > 0 {
                tell(lost);
            }
            // Whether it arrives is no request's business.
            _ = out.write_all(&text);
            _ = out.flush();
            let mut waiting = self.pending.lock();
            waiting.written_batches = waiting.taken_batches;
            waiting.is_stalled = false;
            self.has_written.notify_all();
        }
    }

    /// Has all that waits written, and waits for it unless nobody reads.
    fn flush(&self, mut waiting: MutexGuard<'_, PendingLines>) {
        waiting.is_urgent = true;
        self.has_lines.notify_one();
        if waiting.is_stalled {
            return;
        }
        let all = waiting.taken_batches + u64::from(!waiting.text.is_empty());
        let waits = |waiting: &mut PendingLines| waiting.written_batches < all;
        let waited = self
            .has_written
            .wait_timeout_while(waiting, WRITE_TIMEOUT, waits);
        let (mut waiting, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.is_stalled |= waited.timed_out();
    }
}

impl Drop for LogFlushGuard {
    fn drop(&mut self) {
        self.0.flush(self.0.pending.lock());
    }
}

impl<'l> MakeWriter<'l> for LogWriter {
    type Writer = LineWriter<'l>;

    fn make_writer(&'l self) -> Self::Writer {
        LineWriter {
            buffer: &self.0,
            is_urgent: true,
        }
    }

    fn make_writer_for(&'l self, line: &Metadata<'_>) -> Self::Writer {
        LineWriter {
            buffer: &self.0,
            is_urgent: *line.level() <= Level::WARN,
        }
    }
}

impl Write for LineWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.buffer.pending.lock();
        if waiting.text.len() >= MAX_BUFFERED_BYTES {
            waiting.dropped_lines += 1;
            return Ok(line.len());
        }
        let before = waiting.text.len();
        waiting.text.extend_from_slice(line);
        if self.is_urgent {
            self.buffer.flush(waiting);
        } else if before == 0 || (before < GATHER_BYTES && waiting.text.len() >= GATHER_BYTES) {
            self.buffer.has_lines.notify_one();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, PipeReader};
    use std::sync::mpsc;

    /// Sends each write on, as it comes.
    struct Writes(mpsc::Sender<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            _ = self.0.send(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn lines() -> (LogWriter, LogFlushGuard, mpsc::Receiver<Vec<u8>>) {
        let (sender, written) = mpsc::channel();
        let (lines, waits) = LogWriter::spawn(Writes(sender), |_| ()).unwrap();
        (lines, waits, written)
    }

    fn put(lines: &LogWriter, text: &[u8], at_once: bool) {
        let mut way = LineWriter {
            buffer: &lines.0,
            is_urgent: at_once,
        };
        way.write_all(text).unwrap();
    }

    #[test]
    fn a_line_of_little_weight_is_written_soon_though_none_follows() {
        let (lines, _waits, written) = lines();
        put(&lines, b"one\n", false);
        assert_eq!(written.recv().unwrap(), b"one\n");
        put(&lines, b"two\n", false);
        assert_eq!(written.recv().unwrap(), b"two\n");
    }

    #[test]
    fn one_that_should_be_seen_goes_at_once_behind_those_before_it() {
        let (lines, _waits, written) = lines();
        put(&lines, b"one\n", false);
        put(&lines, b"two\n", true);
        let all: Vec<u8> = written.try_iter().flatten().collect();
        assert_eq!(all, b"one\ntwo\n");
    }

    #[test]
    fn what_waits_at_the_end_is_written() {
        let (lines, waits, written) = lines();
        put(&lines, b"one\n", false);
        drop(waits);
        assert_eq!(written.try_iter().flatten().collect::<Vec<u8>>(), b"one\n");
    }

    /// A pipe that nobody reads yet, and what is told of lost lines.
    fn unread() -> (LogWriter, LogFlushGuard, PipeReader, mpsc::Receiver<u64>) {
        let (reader, writer) = io::pipe().unwrap();
        let (sender, lost) = mpsc::channel();
        let tell = move |lines| _ = sender.send(lines);
        let (lines, waits) = LogWriter::spawn(writer, tell).unwrap();
        (lines, waits, reader, lost)
    }

    /// Puts lines until some are lost; how many it put.
    fn overfill(lines: &LogWriter) -> usize {
        let line = [&[b'x'; 1023], &b"\n"[..]].concat();
        let puts = (0..).take_while(|_| {
            put(lines, &line, false);
            lines.0.pending.lock().dropped_lines < 100
        });
        puts.count() + 1
    }

    #[test]
    fn where_nobody_reads_the_lines_go_on_and_the_end_comes() {
        let (lines, waits, _reader, _) = unread();
        put(&lines, &vec![b'x'; MAX_BUFFERED_BYTES], false);
        for _ in 0..1000 {
            put(&lines, b"seen\n", true);
        }
        overfill(&lines);
        assert!(lines.0.pending.lock().text.len() <= MAX_BUFFERED_BYTES + 1024);
        drop(waits);
    }

    #[test]
    fn once_somebody_reads_again_it_is_told_how_many_lines_were_lost() {
        let (lines, _waits, reader, lost) = unread();
        let all = overfill(&lines);
        let read = thread::spawn(|| {
            let lines = io::BufReader::new(reader).lines().map(Result::unwrap);
            lines.take_while(|line| line != "last").count()
        });
        let lost = usize::try_from(lost.recv().unwrap()).unwrap();
        put(&lines, b"last\n", true);
        assert_eq!(read.join().unwrap() + lost, all);
    }
}
