use super::*;

fn founder(id: u64, others: &[u64]) -> Founder {
    let other = |id: &u64| (Some(NodeId(*id)), String::new());
    Founder {
        id: NodeId(id),
        life: 100 + id,
        list: Some(ClusterId(9)),
        others: others.iter().map(other).collect(),
    }
}

fn waits(id: u64) -> io::Result<Said> {
    Ok(founder(id, &[]).waits())
}

fn begun(lives: &[(u64, u64)]) -> io::Result<Said> {
    let lives = lives.iter().map(|(id, life)| (NodeId(*id), *life)).collect();
    Ok(Said::Begun { cluster: ClusterId(5), lives, has_met: false })
}

fn silent() -> io::Result<Said> {
    Err(io::Error::other("nobody is there"))
}

#[test]
fn the_first_founds_once_all_others_wait_and_not_before() {
    let first = founder(1, &[2, 3]);
    assert_eq!(first.decide(true, &[waits(2), silent()]), None);
    assert_eq!(first.decide(true, &[waits(2), waits(2)]), None, "another node answers at its address");
    assert_eq!(first.decide(true, &[waits(2), Ok(other_list())]), None);
    let lives = [(1, 101), (2, 102), (3, 103)].map(|(id, life)| (NodeId(id), life)).into();
    let founds = Some(Outcome::Founds { cluster: None, lives });
    assert_eq!(first.decide(true, &[waits(2), waits(3)]), founds);
    assert_eq!(founder(2, &[1, 3]).decide(false, &[waits(1), waits(3)]), None, "the first decides");
}

#[test]
fn whose_life_is_counted_founds_and_who_comes_back_joins() {
    let third = founder(3, &[1, 2]);
    let Some(Outcome::Founds { cluster, .. }) =
        third.decide(false, &[silent(), begun(&[(1, 101), (3, 103)])])
    else {
        panic!("its life is counted")
    };
    assert_eq!(cluster, Some(ClusterId(5)));
    for lives in [vec![(1, 101), (3, 77)], Vec::new()] {
        assert_eq!(third.decide(false, &[waits(1), begun(&lives)]), Some(Outcome::Joins), "{lives:?}");
    }
    let first = founder(1, &[2, 3]);
    assert_eq!(first.decide(true, &[waits(2), begun(&[(1, 77)])]), Some(Outcome::Joins));
}

#[test]
fn members_tell_what_they_know_and_strangers_are_refused() {
    let founding = Founding { list: Some(ClusterId(9)), lives: [(NodeId(3), 103)].into() };
    let question = |list| Question { magic: MAGIC, list: Some(ClusterId(list)), id: NodeId(3) };
    let Ok(expected) = begun(&[(3, 103)]) else { panic!("an answer") };
    assert_eq!(founding.answer(ClusterId(5), &question(9), false), expected);
    assert_eq!(founding.answer(ClusterId(5), &question(8), false), other_list());
    assert!(matches!(founding.answer(ClusterId(0), &question(9), false), Said::Refused { .. }));
    let Said::Begun { lives, .. } = Founding::default().answer(ClusterId(5), &question(8), true) else {
        panic!("whoever joined knows no list")
    };
    assert!(lives.is_empty());
}

#[test]
fn answers_survive_the_wire_in_pieces_and_garbage_does_not() {
    let mut bytes = Vec::new();
    let Ok(said) = begun(&[(1, u64::MAX), (2, 0)]) else { panic!("an answer") };
    put_said(&mut bytes, &said);
    for short in 0..bytes.len() {
        assert_eq!(read_said(&bytes[..short]).expect("it may come"), None);
    }
    assert_eq!(read_said(&bytes).expect("it decodes"), Some(said));
    assert_eq!(read_question(&bytes), None);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    read_said(&bytes).expect_err("a checksum");
    // As any later version has to read and write them.
    let mut question = Vec::new();
    let words = Question { magic: MAGIC, list: Some(ClusterId(9)), id: NodeId(3) };
    frame::append(&mut question, FRAME_VERSION, KIND_QUESTION, |bytes| wire::encode_after(&words, bytes));
    assert_eq!(question[8..], *b"\x01\0\x04\0QUORATE\x01\x01\x09\x03");
    assert_eq!(read_question(&question), Some(words));
    let Ok(said) = begun(&[(1, 7)]) else { panic!("an answer") };
    for (said, payload) in [(founder(3, &[]).waits(), &[0, 3, 103][..]), (said, &[1, 5, 1, 1, 7, 0])] {
        let mut bytes = Vec::new();
        put_said(&mut bytes, &said);
        assert_eq!(bytes[12..], *payload);
    }
}

#[test]
fn three_that_start_together_found_one_cluster_and_who_comes_back_joins() {
    let door = || std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let doors = [(); 3].map(|()| door());
    let members: Vec<Member> = (doors.iter().zip(1..))
        .map(|(door, id)| {
            let peer = door.local_addr().expect("an address").to_string();
            let endpoints = quorate_node::Endpoints { peer, ..Default::default() };
            Member { id: NodeId(id), endpoints: endpoints.into() }
        })
        .collect();
    let doors = doors.map(|door| {
        door.set_nonblocking(true).expect("a socket");
        TcpListener::from_std(door)
    });
    let one = |id: u64, life: u64| Founder {
        id: NodeId(id),
        life,
        list: Some(ClusterId(9)),
        others: others(members.clone(), NodeId(id)),
    };
    let lives: BTreeMap<NodeId, u64> = [(NodeId(1), 11), (NodeId(2), 12), (NodeId(3), 13)].into();
    let founding = Founding { list: Some(ClusterId(9)), lives: lives.clone() };
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let first = scope.spawn(|| {
            let outcome = one(1, 11).wait(&doors[0], true);
            // From now on it runs: its door answers as one of a node does.
            scope.spawn(|| run(&doors[0], &founding, &is_over));
            outcome
        });
        let second = scope.spawn(|| one(2, 12).wait(&doors[1], false));
        let third = scope.spawn(|| one(3, 13).wait(&doors[2], false));
        let founds = |cluster| Outcome::Founds { cluster, lives: lives.clone() };
        assert_eq!(first.join().expect("no panic"), founds(None));
        assert_eq!(second.join().expect("no panic"), founds(Some(ClusterId(5))));
        assert_eq!(third.join().expect("no panic"), founds(Some(ClusterId(5))));
        assert_eq!(one(2, 22).wait(&doors[1], false), Outcome::Joins);
        is_over.store(true, Ordering::Release);
    });
}

/// Answers as a node that runs.
fn run(door: &TcpListener, founding: &Founding, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        let Ok((mut stream, _)) = door.accept() else {
            thread::yield_now();
            continue;
        };
        let (mut input, mut bytes) = (Vec::new(), [0; 256]);
        while read_question(&input).is_none() {
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => input.extend_from_slice(&bytes[..count]),
                Err(_) => thread::yield_now(),
            }
        }
        let Some(question) = read_question(&input) else { continue };
        let mut answer = Vec::new();
        put_said(&mut answer, &founding.answer(ClusterId(5), &question, false));
        let _ = stream.write(&answer);
    }
}
