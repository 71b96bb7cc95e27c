//! What each kind of workload asks for.

use bytes::Bytes;
use quorate_api::Reply;
use quorate_api::history::{Ending, Op};

use crate::operation::{Operation, Request, Words};
use crate::replies::{self, SEPARATOR};
use crate::spec::{Kind, Spec};
use crate::{Chooser, Client};

/// What every account holds after setup.
const DEPOSIT: i64 = 100;
/// The most that one transfer moves.
const AMOUNT_MAX: u64 = 10;
/// The most commands of one transaction that appends and reads.
const BATCH_MAX: u64 = 4;

/// Where an operation stands.
#[derive(Debug, Clone)]
pub(crate) enum Plan {
    /// One command.
    Single,
    /// One transaction without conditions.
    Batch,
    /// Nothing is left to do but cleaning up.
    Over,
    /// Write a value over the one that is there.
    Swap { key: String, value: String, is_sent: bool },
    /// Move money, if there is enough.
    Transfer { from: String, to: String, amount: i64, balances: Vec<i64>, is_sent: bool },
    /// Follow three names from a key and exchange the two in the middle.
    Exchange { ring: Vec<String>, is_sent: bool },
}

/// The setup operations of a kind.
pub(crate) fn setup(spec: &Spec) -> Vec<Operation> {
    let steps: Vec<(Words, Op)> = match spec.kind {
        Kind::Bank => spec.all_keys().map(|key| add(key, DEPOSIT)).collect(),
        Kind::Cycle => {
            let next = |number: u64| spec.key((number + 1) % spec.keys);
            (0..spec.keys).map(|number| write(spec.key(number), next(number))).collect()
        }
        _ => return Vec::new(),
    };
    vec![batch(steps)]
}

/// The last look of a kind.
pub(crate) fn finish(spec: &Spec) -> Vec<Operation> {
    let mut looks: Vec<Operation> = match spec.kind {
        // At one moment: a move whose outcome nobody knows may come between two looks.
        Kind::Bank | Kind::Cycle | Kind::List => vec![look_at_all(spec)],
        _ => spec.all_keys().map(|key| single(read(spec.kind, key))).collect(),
    };
    looks.iter_mut().for_each(|look| look.is_final = true);
    looks
}

/// The next operation of a kind.
pub(crate) fn next(spec: &Spec, chooser: &Chooser, client: &mut Client) -> Operation {
    let number = chooser.draw(&mut client.rng);
    let key = spec.key(number);
    let reads = client.rng.chance(spec.read_percent, 100);
    match spec.kind {
        Kind::Bank | Kind::Cycle if reads => look_at_all(spec),
        Kind::AppendTransaction => mixed(spec, chooser, client),
        kind if reads => single(read(kind, key)),
        Kind::Register => single(write(key, client.fresh())),
        Kind::Swap => {
            let planned = vec![Op::Read { key: key.clone(), result: None }];
            watched(&[&key.clone()], Plan::Swap { key, value: client.fresh(), is_sent: false }, planned)
        }
        Kind::Counter => single(add(key, 1)),
        Kind::Append => single(append(key, client.fresh())),
        Kind::AppendString => {
            let value = client.fresh();
            let words = words(["APPEND", &key, &format!("{value}{SEPARATOR}")]);
            single((words, Op::Append { key, value, result: None }))
        }
        Kind::List => single(change_list(spec, number, client)),
        Kind::Bank => {
            // Any other account.
            let other = (number + client.rng.between(1, spec.keys - 1)) % spec.keys;
            let to = spec.key(other);
            let amount = client.rng.between(1, AMOUNT_MAX) as i64;
            let planned = vec![add(key.clone(), -amount).1, add(to.clone(), amount).1];
            let keys = [&key.clone()[..], &to.clone()];
            let plan = Plan::Transfer { from: key, to, amount, balances: Vec::new(), is_sent: false };
            watched(&keys, plan, planned)
        }
        Kind::Cycle => {
            let planned = vec![Op::Read { key: key.clone(), result: None }];
            watched(&[&key.clone()], Plan::Exchange { ring: vec![key], is_sent: false }, planned)
        }
    }
}

impl Operation {
    /// The next step of an operation that watches keys; `None` if the reply is of a wrong kind.
    pub(crate) fn advance_watched(&mut self, request: &Request, reply: &Reply) -> Option<()> {
        let mut plan = std::mem::replace(&mut self.plan, Plan::Over);
        match (&mut plan, request) {
            (Plan::Swap { key, .. }, Request::Watch(_)) => self.request = Some(get(key)),
            (Plan::Swap { key, value, is_sent }, Request::Command(_)) => {
                let expect = replies::text(reply)?;
                let (command, _) = write(key.clone(), value.clone());
                self.ops =
                    vec![Op::Cas { key: key.clone(), expect, value: value.clone(), result: Some(true) }];
                self.request = Some(transaction(&[key], vec![command]));
                *is_sent = true;
            }
            (Plan::Transfer { from, .. }, Request::Watch(_)) => self.request = Some(get(from)),
            (Plan::Transfer { from, to, amount, balances, is_sent }, Request::Command(_)) => {
                let balance = replies::text(reply)?.map_or(Some(0), |digits| digits.parse().ok())?;
                balances.push(balance);
                let [own, other] = balances[..] else {
                    self.request = Some(get(to));
                    self.plan = plan;
                    return Some(());
                };
                if own < *amount {
                    self.request = Some(Request::Unwatch);
                    return Some(());
                }
                let (take, take_op) = add(from.clone(), -*amount);
                let (give, give_op) = add(to.clone(), *amount);
                let seen = |key: &String, sum| Op::Count { key: key.clone(), result: Some(sum) };
                self.ops = vec![seen(from, own), seen(to, other), take_op, give_op];
                self.request = Some(transaction(&[from, to], vec![take, give]));
                *is_sent = true;
            }
            (Plan::Exchange { ring, .. }, Request::Watch(_)) => self.request = Some(get(ring.last()?)),
            (Plan::Exchange { ring, is_sent }, Request::Command(_)) => {
                let Some(next) = replies::text(reply)? else {
                    // Before setup nothing is there.
                    self.request = Some(Request::Unwatch);
                    return Some(());
                };
                ring.push(next);
                match &ring[..] {
                    [a, b, c, d] => {
                        (self.request, self.ops) = exchange(a, b, c, d);
                        *is_sent = true;
                    }
                    _ => self.request = Some(Request::Watch(vec![bytes(ring.last()?)])),
                }
            }
            (_, Request::Transaction { .. }) => return self.executed(&plan, reply),
            _ => return None,
        }
        self.plan = plan;
        Some(())
    }

    /// Ends a transaction that was not executed because a watched key had changed.
    fn outrun(&mut self, plan: &Plan) {
        self.ending = Ending::Fail;
        if let (Plan::Swap { .. }, Some(Op::Cas { key, expect, .. })) = (plan, self.ops.first()) {
            // What remains is a read.
            self.ops = vec![Op::Read { key: key.clone(), result: Some(expect.clone()) }];
            self.ending = Ending::Ok;
        }
    }

    /// EXEC was answered.
    fn executed(&mut self, plan: &Plan, reply: &Reply) -> Option<()> {
        let replies = match reply {
            Reply::Nil | Reply::NilArray => {
                self.outrun(plan);
                return Some(());
            }
            Reply::Array(replies) => replies,
            _ => return None,
        };
        let count = self.ops.len();
        match plan {
            Plan::Swap { .. } => return (replies[..] == [Reply::Ok]).then(|| self.ending = Ending::Ok),
            Plan::Transfer { .. } if replies.len() == 2 => {
                for (op, reply) in self.ops[count - 2..].iter_mut().zip(replies) {
                    replies::fill(op, &Words::new(), reply)?;
                }
            }
            Plan::Exchange { .. } if replies[..] == [Reply::Ok, Reply::Ok, Reply::Ok] => {}
            _ => return None,
        }
        self.ending = Ending::Ok;
        Some(())
    }
}

/// a -> b -> c -> d becomes a -> c -> b -> d.
fn exchange(a: &str, b: &str, c: &str, d: &str) -> (Option<Request>, Vec<Op>) {
    let seen = |key: &str, next: &str| Op::Read { key: key.into(), result: Some(Some(next.into())) };
    let mut ops = vec![seen(a, b), seen(b, c), seen(c, d)];
    let steps = [(a, c), (c, b), (b, d)].map(|(key, next)| write(key.into(), next.into()));
    let mut commands = Vec::new();
    for (words, op) in steps {
        commands.push(words);
        ops.push(op);
    }
    (Some(transaction(&[a, b, c], commands)), ops)
}

fn change_list(spec: &Spec, number: u64, client: &mut Client) -> (Words, Op) {
    let key = spec.key(number);
    match client.rng.below(6) {
        0 => (words(["LPOP", &key]), Op::PopFront { key, result: None }),
        1 => (words(["RPOP", &key]), Op::PopBack { key, result: None }),
        2 => {
            let value = client.fresh();
            (words(["LPUSH", &key, &value]), Op::Prepend { key, value, result: None })
        }
        // Moves tie keys together for the checker, so they stay between two neighbours.
        3 if (number ^ 1) < spec.keys => {
            let to = spec.key(number ^ 1);
            (words(["LMOVE", &key, &to, "LEFT", "RIGHT"]), Op::Move { key, to, result: None })
        }
        _ => append(key, client.fresh()),
    }
}

fn mixed(spec: &Spec, chooser: &Chooser, client: &mut Client) -> Operation {
    let count = client.rng.between(1, BATCH_MAX);
    let steps = (0..count).map(|_| {
        let key = spec.key(chooser.draw(&mut client.rng));
        match client.rng.chance(spec.read_percent, 100) {
            true => read(spec.kind, key),
            false => append(key, client.fresh()),
        }
    });
    batch(steps.collect())
}

fn look_at_all(spec: &Spec) -> Operation {
    batch(spec.all_keys().map(|key| read(spec.kind, key)).collect())
}

/// Reads a key as its kind does.
fn read(kind: Kind, key: String) -> (Words, Op) {
    let get = words(["GET", &key]);
    match kind {
        Kind::Register | Kind::Swap | Kind::Cycle => (get, Op::Read { key, result: None }),
        Kind::Counter | Kind::Bank => (get, Op::Count { key, result: None }),
        Kind::AppendString => (get, Op::List { key, result: None }),
        Kind::Append | Kind::AppendTransaction | Kind::List => {
            (words(["LRANGE", &key, "0", "-1"]), Op::List { key, result: None })
        }
    }
}

fn write(key: String, value: String) -> (Words, Op) {
    (words(["SET", &key, &value]), Op::Write { key, value: Some(value) })
}

fn append(key: String, value: String) -> (Words, Op) {
    (words(["RPUSH", &key, &value]), Op::Append { key, value, result: None })
}

fn add(key: String, amount: i64) -> (Words, Op) {
    (words(["INCRBY", &key, &amount.to_string()]), Op::Add { key, amount, result: None })
}

fn single((words, op): (Words, Op)) -> Operation {
    operation(Plan::Single, Request::Command(words), vec![op])
}

fn batch(steps: Vec<(Words, Op)>) -> Operation {
    let (commands, ops) = steps.into_iter().unzip();
    operation(Plan::Batch, Request::Transaction { watched: Vec::new(), commands }, ops)
}

fn operation(plan: Plan, request: Request, ops: Vec<Op>) -> Operation {
    Operation { plan, request: Some(request), ops, ending: Ending::Fail, is_final: false }
}

/// An operation that begins with WATCH; if it gets no further its record says what was planned.
fn watched(keys: &[&str], plan: Plan, planned: Vec<Op>) -> Operation {
    operation(plan, Request::Watch(keys.iter().map(|key| bytes(key)).collect()), planned)
}

fn get(key: &str) -> Request {
    Request::Command(words(["GET", key]))
}

fn transaction(watched: &[&str], commands: Vec<Words>) -> Request {
    Request::Transaction { watched: watched.iter().map(|key| bytes(key)).collect(), commands }
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn words<const COUNT: usize>(texts: [&str; COUNT]) -> Words {
    texts.iter().map(|text| bytes(text)).collect()
}
