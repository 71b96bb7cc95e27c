//! An async runtime: a task a connection on one thread, and one task that makes batches durable.

use std::cell::{Cell, RefCell};
use std::net::TcpListener as StdListener;
use std::rc::Rc;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local, yield_now};

use crate::path::{Client, Data, Log, READ_BYTES};

#[derive(Default)]
struct Shared {
    data: RefCell<Data>,
    batch: RefCell<Vec<u8>>,
    /// Batches begun so far: what is in `batch` now is durable once `durable` has reached this.
    batches: Cell<u64>,
    durable: Cell<u64>,
    /// Something was appended.
    work: Notify,
    /// `durable` has moved.
    done: Notify,
}

pub(crate) fn serve(listener: StdListener, log: Log) -> Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, async move {
        let listener = TcpListener::from_std(listener)?;
        let shared = Rc::new(Shared { batches: Cell::new(1), ..Shared::default() });
        let syncer = spawn_local(sync(Rc::clone(&shared), log));
        loop {
            let (socket, _) = listener.accept().await?;
            anyhow::ensure!(!syncer.is_finished(), "the log failed");
            socket.set_nodelay(true)?;
            spawn_local(client(Rc::clone(&shared), socket));
        }
    })
}

/// One write and one fdatasync for everything the tasks that were ready have appended.
async fn sync(shared: Rc<Shared>, mut log: Log) -> Result<()> {
    loop {
        shared.work.notified().await;
        // Lets every task that is ready in this turn append first.
        yield_now().await;
        let batch = shared.batch.take();
        let number = shared.batches.replace(shared.batches.get() + 1);
        log.append(&batch)?;
        shared.durable.set(number);
        shared.done.notify_waiters();
    }
}

/// Ends, and closes the connection, with whatever goes wrong on it.
async fn client(shared: Rc<Shared>, mut socket: TcpStream) -> Result<()> {
    let (mut client, mut buffer) = (Client::default(), vec![0; READ_BYTES]);
    loop {
        let count = socket.read(&mut buffer).await?;
        if count == 0 {
            return Ok(());
        }
        let wrote = client.receive(
            &buffer[..count],
            &mut shared.data.borrow_mut(),
            &mut shared.batch.borrow_mut(),
        )?;
        if wrote {
            let number = shared.batches.get();
            shared.work.notify_one();
            while shared.durable.get() < number {
                shared.done.notified().await;
            }
        }
        socket.write_all(&client.output).await?;
        client.output.clear();
    }
}
