//! Reads the next shard in a thread of its own while the last one is decoded: two shards of text at most.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::shard::{Cut, Cutter, Shard};
use crate::text::{Input, ReadError, Text};

/// What came within the time that was given.
pub enum Next {
    /// A shard.
    Shard(Box<Shard>),
    /// There is no more.
    End,
    /// There is more, but it cannot be read.
    Failed(ReadError),
    /// Nothing yet: the source has not said more.
    Waiting,
}

/// The shards of a text, read ahead.
pub struct Shards {
    receiver: Receiver<Result<Shard, ReadError>>,
}

impl Shards {
    /// Starts to read.
    pub fn of(input: Input, cut: Cut) -> Self {
        let (sender, receiver) = sync_channel(0);
        // Not joined: a read that blocks, as of a terminal, may never come back, and the thread ends with the next send.
        thread::spawn(move || {
            let mut cutter = match Text::open(input, cut.start) {
                Ok(text) => Cutter::new(text, cut),
                Err(error) => return drop(sender.send(Err(error))),
            };
            while let Some(shard) = cutter.next_shard().transpose() {
                let failed = shard.is_err();
                if sender.send(shard).is_err() || failed {
                    return;
                }
            }
        });
        Self { receiver }
    }

    /// The next shard, or what is known after waiting for so long.
    pub fn next(&self, wait: Duration) -> Next {
        match self.receiver.recv_timeout(wait) {
            Ok(Ok(shard)) => Next::Shard(Box::new(shard)),
            Ok(Err(error)) => Next::Failed(error),
            Err(RecvTimeoutError::Timeout) => Next::Waiting,
            Err(RecvTimeoutError::Disconnected) => Next::End,
        }
    }
}
