//! Lines on their way out: many in one write, and none waits for long.
//!
//! A write of its own for each line is dearer than all else that is done for it. So a line of little
//! weight waits a moment for those behind it; one that somebody should see goes at once, with all
//! that came before it.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use crate::lock::Mutex;

/// How long a line waits for others at the most: nobody who watches sees it.
const WAIT: Duration = Duration::from_millis(20);

/// How many bytes wait at the most, but for one line: whoever brings more writes all.
const ROOM: usize = 64 * 1024;

/// Where lines go.
#[derive(Debug)]
pub(super) struct Lines<W>(Arc<Shared<W>>);

#[derive(Debug)]
struct Shared<W> {
    waiting: Mutex<Waiting<W>>,
    /// A line waits where none did, or none will wait any more.
    changed: Condvar,
}

#[derive(Debug)]
struct Waiting<W> {
    text: Vec<u8>,
    out: W,
    /// Nobody comes by to write what waits: each line goes as it comes.
    alone: bool,
}

/// While it is there, lines may wait; those that do are written when it goes.
#[must_use = "lines that wait are lost without it"]
pub(crate) struct Waits(Box<dyn Stop>);

/// Lines of any output.
trait Stop {
    fn stop(&self);
}

/// The way of one line.
pub(super) struct Way<'l, W> {
    lines: &'l Shared<W>,
    at_once: bool,
}

impl<W: Write + Send + 'static> Lines<W> {
    /// None yet, on their way to `out`.
    pub(super) fn to(out: W) -> (Self, Waits) {
        let shared = Arc::new(Shared {
            waiting: Mutex::new(Waiting {
                text: Vec::new(),
                out,
                alone: false,
            }),
            changed: Condvar::new(),
        });
        let lines = Arc::clone(&shared);
        let thread = thread::Builder::new().name("log".into());
        if thread.spawn(move || lines.write_now_and_then()).is_err() {
            shared.waiting.lock().alone = true;
        }
        (Self(Arc::clone(&shared)), Waits(Box::new(shared)))
    }
}

impl<W: Write> Shared<W> {
    fn write_now_and_then(&self) {
        loop {
            let nothing = |waiting: &mut Waiting<W>| waiting.text.is_empty() && !waiting.alone;
            let waiting = self.changed.wait_while(self.waiting.lock(), nothing);
            // As [`Mutex`] does it.
            if waiting.unwrap_or_else(PoisonError::into_inner).alone {
                return;
            }
            thread::sleep(WAIT);
            self.waiting.lock().write();
        }
    }
}

impl<W: Write> Waiting<W> {
    /// Writes what waits. Whether it arrives is no request's business.
    fn write(&mut self) {
        _ = self.out.write_all(&self.text);
        _ = self.out.flush();
        self.text.clear();
    }
}

impl<W: Write> Stop for Arc<Shared<W>> {
    fn stop(&self) {
        let mut waiting = self.waiting.lock();
        waiting.alone = true;
        waiting.write();
        self.changed.notify_one();
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl<'l, W: Write + 'static> MakeWriter<'l> for Lines<W> {
    type Writer = Way<'l, W>;

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

impl<W: Write> Write for Way<'_, W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut waiting = self.lines.waiting.lock();
        let is_first = waiting.text.is_empty();
        waiting.text.extend_from_slice(line);
        if self.at_once || waiting.alone || waiting.text.len() > ROOM {
            waiting.write();
        } else if is_first {
            self.lines.changed.notify_one();
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

    fn lines() -> (Lines<Writes>, Waits, mpsc::Receiver<Vec<u8>>) {
        let (sender, written) = mpsc::channel();
        let (lines, waits) = Lines::to(Writes(sender));
        (lines, waits, written)
    }

    fn put(lines: &Lines<Writes>, text: &[u8], at_once: bool) {
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
    fn what_waits_is_bounded() {
        let (lines, _waits, written) = lines();
        let line = vec![b'x'; ROOM + 1];
        put(&lines, &line, false);
        assert_eq!(written.try_iter().flatten().count(), line.len());
    }

    #[test]
    fn what_waits_at_the_end_is_written_and_none_waits_behind_it() {
        let (lines, waits, written) = lines();
        put(&lines, b"one\n", false);
        drop(waits);
        assert_eq!(written.try_iter().flatten().collect::<Vec<u8>>(), b"one\n");
        put(&lines, b"two\n", false);
        assert_eq!(written.try_iter().flatten().collect::<Vec<u8>>(), b"two\n");
    }
}
