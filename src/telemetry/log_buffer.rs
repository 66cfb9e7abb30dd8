//! Buffers log lines: one write for many lines, and no request waits for the reader of the log.
//!
//! A separate write per line costs more than everything else about the line. So a line below `WARN`
//! is held briefly for the lines after it. A line at `WARN` or above is written at once, with all
//! lines before it.
//!
//! Only the thread `log` writes. If the output stalls (a paused terminal, a full pipe), only that
//! thread blocks. Lines that do not fit into the buffer meanwhile are dropped and counted.

use std::io::{self, Write};
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use parking_lot::{Condvar, Mutex, MutexGuard};

/// Maximum delay of a line; too short for a viewer to notice.
const GATHER_TIME: Duration = Duration::from_millis(20);

/// Buffered bytes that trigger a write at once.
const GATHER_BYTES: usize = 64 * 1024;

/// Maximum number of buffered bytes, plus one line. Holds some thousand lines, more than are logged
/// while a working reader is busy elsewhere.
const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// Maximum time that an urgent line, or the shutdown, waits for its write. After a timeout no
/// caller waits until a write succeeds, since the output has stalled.
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct LogWriter(Arc<LogBuffer>);

#[derive(Debug, Default)]
struct LogBuffer {
    pending: Mutex<PendingLines>,
    /// Signals the first line in an empty buffer, and that a write is due.
    has_lines: Condvar,
    /// Signals that the taken text has been written.
    has_written: Condvar,
}

#[derive(Debug, Default)]
struct PendingLines {
    text: Vec<u8>,
    /// Whether the buffered text must be written at once.
    is_urgent: bool,
    /// Number of batches taken from the buffer, and of batches written.
    taken_batches: u64,
    written_batches: u64,
    /// Whether a caller timed out waiting for the current write.
    is_stalled: bool,
    /// Lines dropped since the last report.
    dropped_lines: u64,
}

/// Writes the buffered lines when dropped.
#[must_use = "buffered lines are lost without it"]
pub(crate) struct LogFlushGuard(Arc<LogBuffer>);

pub(super) struct LineWriter<'l> {
    buffer: &'l LogBuffer,
    is_urgent: bool,
}

impl LogWriter {
    /// Starts the thread that writes to `out`. `tell` reports the number of dropped lines, in a
    /// separate log line. Fails if the thread could not be spawned.
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
    /// Writes buffered lines for as long as the process lives.
    fn write_loop(&self, mut out: impl Write, tell: impl Fn(u64)) {
        let nothing = |waiting: &mut PendingLines| waiting.text.is_empty();
        let gathers =
            |waiting: &mut PendingLines| !waiting.is_urgent && waiting.text.len() < GATHER_BYTES;
        loop {
            let mut waiting = self.pending.lock();
            self.has_lines.wait_while(&mut waiting, nothing);
            self.has_lines.wait_while_for(&mut waiting, gathers, GATHER_TIME);
            let text = mem::take(&mut waiting.text);
            let lost = mem::take(&mut waiting.dropped_lines);
            waiting.is_urgent = false;
            waiting.taken_batches += 1;
            // The report below logs from this thread, which must not wait for itself.
            waiting.is_stalled |= lost > 0;
            drop(waiting);
            // The buffer has room for the report now.
            if lost > 0 {
                tell(lost);
            }
            // A failed write must not affect requests.
            _ = out.write_all(&text);
            _ = out.flush();
            let mut waiting = self.pending.lock();
            waiting.written_batches = waiting.taken_batches;
            waiting.is_stalled = false;
            self.has_written.notify_all();
        }
    }

    /// Writes all buffered lines and waits for the write, unless the output has stalled.
    fn flush(&self, mut waiting: MutexGuard<'_, PendingLines>) {
        waiting.is_urgent = true;
        self.has_lines.notify_one();
        if waiting.is_stalled {
            return;
        }
        let all = waiting.taken_batches + u64::from(!waiting.text.is_empty());
        let waits = |waiting: &mut PendingLines| waiting.written_batches < all;
        self.has_written.wait_while_for(&mut waiting, waits, WRITE_TIMEOUT);
        // A write may end in the moment of the timeout.
        waiting.is_stalled |= waiting.written_batches < all;
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
        LineWriter { buffer: &self.0, is_urgent: true }
    }

    fn make_writer_for(&'l self, line: &Metadata<'_>) -> Self::Writer {
        LineWriter { buffer: &self.0, is_urgent: *line.level() <= Level::WARN }
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

    /// Forwards each write to a channel.
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
        let mut way = LineWriter { buffer: &lines.0, is_urgent: at_once };
        way.write_all(text).unwrap();
    }

    #[test]
    fn low_priority_line_is_written_without_a_following_one() {
        let (lines, _waits, written) = lines();
        put(&lines, b"one\n", false);
        assert_eq!(written.recv().unwrap(), b"one\n");
        put(&lines, b"two\n", false);
        assert_eq!(written.recv().unwrap(), b"two\n");
    }

    #[test]
    fn urgent_line_is_written_at_once_after_earlier_ones() {
        let (lines, _waits, written) = lines();
        put(&lines, b"one\n", false);
        put(&lines, b"two\n", true);
        let all: Vec<u8> = written.try_iter().flatten().collect();
        assert_eq!(all, b"one\ntwo\n");
    }

    #[test]
    fn pending_lines_are_written_at_shutdown() {
        let (lines, waits, written) = lines();
        put(&lines, b"one\n", false);
        drop(waits);
        assert_eq!(written.try_iter().flatten().collect::<Vec<u8>>(), b"one\n");
    }

    /// Lines to a pipe that is not read yet, and the reported numbers of dropped lines.
    fn unread() -> (LogWriter, LogFlushGuard, PipeReader, mpsc::Receiver<u64>) {
        let (reader, writer) = io::pipe().unwrap();
        let (sender, lost) = mpsc::channel();
        let tell = move |lines| _ = sender.send(lines);
        let (lines, waits) = LogWriter::spawn(writer, tell).unwrap();
        (lines, waits, reader, lost)
    }

    /// Writes lines until some are dropped. Returns the number of lines written.
    fn overfill(lines: &LogWriter) -> usize {
        let line = [&[b'x'; 1023], &b"\n"[..]].concat();
        let puts = (0..).take_while(|_| {
            put(lines, &line, false);
            lines.0.pending.lock().dropped_lines < 100
        });
        puts.count() + 1
    }

    #[test]
    fn unread_output_blocks_neither_logging_nor_shutdown() {
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
    fn reports_the_number_of_lost_lines_once_output_is_read_again() {
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
