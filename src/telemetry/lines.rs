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
const WAIT: Duration = Duration::from_millis(20);

/// With so many bytes none waits for others.
const ENOUGH: usize = 64 * 1024;

/// How many bytes wait at the most, but for one line: some thousand lines, more than come while a
/// reader that reads is busy elsewhere.
const ROOM: usize = 1 << 20;

/// How long one who wants a line seen, and the end, wait until it is written. Past this nobody reads, and
/// no other waits until somebody does.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where lines go.
#[derive(Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    /// A line waits where none did, or none will wait for others any more.
    come: Condvar,
    /// What was taken is written.
    gone: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    text: Vec<u8>,
    /// Nothing of the text waits for others.
    at_once: bool,
    /// How often a text was taken to be written, and how often it was.
    taken: u64,
    written: u64,
    /// Somebody waited in vain for what is being written.
    stuck: bool,
    /// Lines that found no room since it was last told.
    lost: u64,
}

/// While it is there, lines may wait; those that do are written when it goes.
#[must_use = "lines that wait are lost without it"]
pub(crate) struct Waits(Arc<Shared>);

/// The way of one line.
pub(super) struct Way<'l> {
    lines: &'l Shared,
    at_once: bool,
}

impl Lines {
    /// None yet, on their way to `out`. How many were lost is told by `tell`, in a line of its own.
    ///
    /// # Errors
    /// There is no thread to write them.
    pub(super) fn to(
        out: impl Write + Send + 'static,
        tell: impl Fn(u64) + Send + 'static,
    ) -> io::Result<(Self, Waits)> {
        let shared = Arc::new(Shared::default());
        let lines = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".into());
        thread.spawn(move || lines.write(out, tell))?;
        Ok((Self(Arc::clone(&shared)), Waits(shared)))
    }
}

impl Shared {
    /// Writes what comes, for as long as the process lives.
    fn write(&self, mut out: impl Write, tell: impl Fn(u64)) {
        let nothing = |waiting: &mut Waiting| waiting.text.is_empty();
        let gathers = |waiting: &mut Waiting| !waiting.at_once && waiting.text.len() < ENOUGH;
        loop {
            let waiting = self.come.wait_while(self.waiting.lock(), nothing);
            // As [`Mutex`] does it.
            let waiting = waiting.unwrap_or_else(PoisonError::into_inner);
            let gathered = self.come.wait_timeout_while(waiting, WAIT, gathers);
            let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
            let text = mem::take(&mut waiting.text);
            let lost = mem::take(&mut waiting.lost);
            waiting.at_once = false;
            waiting.taken += 1;
            // Who tells of it in this thread must not wait for it.
            waiting.stuck |= lost > 0;
            drop(waiting);
            // Now there is room for it.
            if lost > 0 {
                tell(lost);
            }
            // Whether it arrives is no request's business.
            _ = out.write_all(&text);
            _ = out.flush();
            let mut waiting = self.waiting.lock();
            waiting.written = waiting.taken;
            waiting.stuck = false;
            self.gone.notify_all();
        }
    }

    /// Has all that waits written, and waits for it unless nobody reads.
    fn see_off(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.at_once = true;
        self.come.notify_one();
        if waiting.stuck {
            return;
        }
        let all = waiting.taken + u64::from(!waiting.text.is_empty());
        let waits = |waiting: &mut Waiting| waiting.written < all;
        let waited = self.gone.wait_timeout_while(waiting, PATIENCE, waits);
        let (mut waiting, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.stuck |= waited.timed_out();
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.see_off(self.0.waiting.lock());
    }
}

impl<'l> MakeWriter<'l> for Lines {
    type Writer = Way<'l>;

    fn make_writer(&'l self) -> Self::Writer {
        Way {
            lines: &self.0,
            at_once: true,
        }
    }

    fn make_writer_for(&'l self, line: &Metadata<'_>) -> Self::Writer {
        Way {
            lines: &self.0,
            at_once: *line.level() <= Level::WARN,
        }
    }
}

impl Write for Way<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lines.waiting.lock();
        if waiting.text.len() >= ROOM {
            waiting.lost += 1;
            return Ok(line.len());
        }
        let before = waiting.text.len();
        waiting.text.extend_from_slice(line);
        if self.at_once {
            self.lines.see_off(waiting);
        } else if before == 0 || (before < ENOUGH && waiting.text.len() >= ENOUGH) {
            self.lines.come.notify_one();
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

    fn lines() -> (Lines, Waits, mpsc::Receiver<Vec<u8>>) {
        let (sender, written) = mpsc::channel();
        let (lines, waits) = Lines::to(Writes(sender), |_| ()).unwrap();
        (lines, waits, written)
    }

    fn put(lines: &Lines, text: &[u8], at_once: bool) {
        let mut way = Way {
            lines: &lines.0,
            at_once,
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
    fn unread() -> (Lines, Waits, PipeReader, mpsc::Receiver<u64>) {
        let (reader, writer) = io::pipe().unwrap();
        let (sender, lost) = mpsc::channel();
        let tell = move |lines| _ = sender.send(lines);
        let (lines, waits) = Lines::to(writer, tell).unwrap();
        (lines, waits, reader, lost)
    }

    /// Puts lines until some are lost; how many it put.
    fn overfill(lines: &Lines) -> usize {
        let line = [&[b'x'; 1023], &b"\n"[..]].concat();
        let puts = (0..).take_while(|_| {
            put(lines, &line, false);
            lines.0.waiting.lock().lost < 100
        });
        puts.count() + 1
    }

    #[test]
    fn where_nobody_reads_the_lines_go_on_and_the_end_comes() {
        let (lines, waits, _reader, _) = unread();
        put(&lines, &vec![b'x'; ROOM], false);
        for _ in 0..1000 {
            put(&lines, b"seen\n", true);
        }
        overfill(&lines);
        assert!(lines.0.waiting.lock().text.len() <= ROOM + 1024);
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
