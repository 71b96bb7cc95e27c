//! Disks that run full, of file systems that are mounted for it. Where there is no root, that this is said.
//!
//! The test runs itself again in a mount namespace of its own: whatever becomes of it, the mount goes with its last process.

mod common;

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Cluster, Raw, until, writing};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Where the inner test makes its disk.
const MOUNT: &str = "QUORATE_TEST_MOUNT";
/// Room for three nodes: each has two segments of its log, and a store.
const DISK_BYTES: u64 = 512 << 20;
const RESERVE_BYTES: u64 = 64 << 20;
const REFUSED: &str = "-NOSPACE the disk is full, nothing was changed\r\n";

/// Runs a command; says what it complained of.
fn done(program: &str, words: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(words).output().map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{program}: {said}")) }
}

/// Runs the test of this name once more where it may mount, with a folder to mount at; that run does `inside`.
fn where_one_may_mount(name: &str, inside: impl FnOnce(&Path)) {
    if let Some(mount) = std::env::var_os(MOUNT) {
        return inside(Path::new(&mount));
    }
    const NAMESPACE: [&str; 3] = ["--mount", "--propagation", "private"];
    if let Err(why) = done("unshare", &[&NAMESPACE[..], &["true"]].concat()) {
        eprintln!("SKIPPED {name}: no file system can be mounted here: {why}");
        return;
    }
    let temp = tempfile::tempdir().expect("a directory");
    let mut again = Command::new("unshare");
    again.args(NAMESPACE).arg(std::env::current_exe().expect("this program"));
    let status = again.args(["--exact", name, "--nocapture"]).env(MOUNT, temp.path()).status();
    assert!(status.expect("it was there a moment ago").success());
}

/// A disk, what else is on it, and how much is free.
struct Disk {
    ballast: PathBuf,
}

impl Disk {
    fn free(&self) -> u64 {
        let stat = statvfs(self.ballast.parent().expect("a folder")).expect("a file system");
        stat.f_bavail * stat.f_frsize
    }

    /// Somebody else's file takes all but so many bytes, or all there are.
    fn fill(&self, left: u64) {
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&self.ballast).expect("a file");
        for step in [1 << 20, 64 << 10, 4 << 10] {
            while self.free().saturating_sub(left) >= step && grow(&file, step) {}
        }
        if left == 0 {
            while grow(&file, 4 << 10) {}
        }
    }

    fn empty(&self) {
        std::fs::remove_file(&self.ballast).expect("a file");
    }
}

/// Whether the disk had room for so many bytes more.
fn grow(file: &File, bytes: u64) -> bool {
    let length = file.metadata().expect("a file").len();
    fallocate(file, FallocateFlags::empty(), length, bytes).is_ok()
}

fn full(cluster: &Cluster, expected: bool) -> bool {
    let status = cluster.status();
    let nodes = status["nodes"].as_array().expect("nodes");
    nodes.iter().all(|node| node["report"]["host"]["disk_full"] == expected)
}

/// Every node refuses what would change something, and answers everything else.
#[track_caller]
fn only_reads(clients: &mut [Raw]) {
    for _ in 0..50 {
        for client in &mut *clients {
            client.send("SET greeting again\r\nGET greeting\r\n");
            client.expect(&format!("{REFUSED}$5\r\nhello\r\n"));
        }
    }
}

fn runs_full_and_has_room_again(mounted: &Path) {
    let disk = Disk { ballast: mounted.join("ballast") };
    let reserve = format!("durable.reserve_bytes={RESERVE_BYTES}");
    let cluster = Cluster::up_at(mounted.join("data"), 3, &["--set", &reserve]);
    let mut clients: Vec<Raw> = (1..=3).map(|node| cluster.connect(node, "client")).collect();
    clients[0].send("SET greeting hello\r\n");
    clients[0].expect("+OK\r\n");
    let (written, ()) = writing(&mut cluster.connect(1, "client"), || {
        eprintln!("{} of {} MiB are free", disk.free() >> 20, DISK_BYTES >> 20);
        until("some writes are acknowledged", || {
            clients[2].send("EXISTS written:100\r\n");
            clients[2].line() == ":1\r\n"
        });
        disk.fill(RESERVE_BYTES / 2);
        until("all have noticed", || full(&cluster, true));
        only_reads(&mut clients);
        // Whoever else writes does not know of the reserve.
        disk.fill(0);
        only_reads(&mut clients);
        assert!(full(&cluster, true));
        disk.empty();
        until("all have noticed", || full(&cluster, false));
        // Followers hear a little later that the leader has.
        for client in &mut clients {
            until("writes are taken again", || {
                client.send("SET greeting hello\r\n");
                client.line() == "+OK\r\n"
            });
        }
    });
    eprintln!(
        "{} acknowledged, {} refused, {:?} without an answer",
        written.count,
        written.refused.len(),
        written.longest
    );
    // A write that was under way may have waited for room.
    assert_eq!(written.refused.iter().find(|refused| *refused != REFUSED), None);
    clients.iter_mut().for_each(|client| written.is_all_at(client));
    for node in ["1", "2", "3"] {
        cluster.run(&["kill", node]).ok();
    }
    cluster.run(&["up", "--detach"]).ok();
    (1..=3).for_each(|node| written.is_all_at(&mut cluster.connect(node, "client")));
}

#[test]
fn a_full_tmpfs_refuses_writes_until_there_is_room() {
    where_one_may_mount("a_full_tmpfs_refuses_writes_until_there_is_room", |mount| {
        let path = mount.to_str().expect("UTF-8");
        done("mount", &["-t", "tmpfs", "-o", &format!("size={DISK_BYTES}"), "tmpfs", path]).expect("a tmpfs");
        runs_full_and_has_room_again(mount);
    });
}

#[test]
fn a_full_ext4_refuses_writes_until_there_is_room() {
    where_one_may_mount("a_full_ext4_refuses_writes_until_there_is_room", |mount| {
        let (image, disk) = (mount.join("image"), mount.join("disk"));
        File::create_new(&image).and_then(|file| file.set_len(DISK_BYTES)).expect("a file");
        std::fs::create_dir(&disk).expect("a folder");
        let [image, path] = [&image, &disk].map(|path| path.to_str().expect("UTF-8"));
        let made =
            done("mkfs.ext4", &["-q", image]).and_then(|()| done("mount", &["-o", "loop", image, path]));
        match made {
            Ok(()) => runs_full_and_has_room_again(&disk),
            Err(why) => eprintln!("SKIPPED: no ext4 in a file can be mounted here: {why}"),
        }
    });
}
