// Shows how an engine writes its trace in Rust: first a writer to copy, which needs only std, then the example,
// the run of docs/trace.md, level by level:
//
//     rustc -O trace_example.rs
//     trace_example OUT LEVEL NUMBERS
//
// The files of the folder NUMBERS hold the values that an engine would compute, as consecutive binary32 rows:
// logits.f32, g.f32, conv_state.f32. The examples in C and Python write the same bytes.
use std::fs::{self, File};
use std::io::{self, Error, ErrorKind, Write};
use std::path::{Path, PathBuf};

fn wrong<T>(message: String) -> io::Result<T> {
    Err(Error::new(ErrorKind::InvalidInput, message))
}

fn quote(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c < ' ' => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Writes under another name until the file is complete.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = File::create(&part).and_then(|mut file| file.write_all(bytes));
    let done = written.and_then(|()| fs::rename(&part, path));
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}

/// The elements of an array, little-endian, and the safetensors name of their type. bfloat16 and binary16 are
/// given as bits.
pub enum Data<'a> {
    F32(&'a [f32]),
    Bf16(&'a [u16]),
    F16(&'a [u16]),
    I32(&'a [i32]),
}

impl Data<'_> {
    fn plain(&self) -> (&'static str, usize, Vec<u8>) {
        match self {
            Data::F32(v) => ("F32", 4, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::Bf16(v) => ("BF16", 2, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::F16(v) => ("F16", 2, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
            Data::I32(v) => ("I32", 4, v.iter().flat_map(|x| x.to_le_bytes()).collect()),
        }
    }
}

struct Tensor {
    name: String,
    dtype: &'static str,
    width: usize,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

/// One sequence and its position.
pub struct Sequence {
    number: u32,
    slot: Option<u32>,
    position: u64,
    rounds: u64,
    drafted: u64,
    began: u64,
    call: u64, // number of the last call that fed it, from 1
    parent: Option<u32>, // the sequence whose state it begins with, until its first call
}

/// The folder. If dropped before finish(), it has no trace.json: an incomplete run.
pub struct Trace {
    folder: PathBuf,
    head: String,
    level: u8,
    vocab_size: u32,
    sequences: u32,
    steps: Vec<String>,
    rows: Vec<String>,
    rounds: Vec<String>,
    states: Vec<String>,
    prefixes: Vec<String>,
    samplings: Vec<String>,
    logits_rows: Option<Vec<usize>>,
    tensors: Vec<Tensor>,
}

impl Trace {
    pub fn create(folder: &Path, engine: &str, vocab_size: u32, level: u8) -> io::Result<Trace> {
        if engine.is_empty() || engine.len() > 95 || vocab_size == 0 || level > 4 {
            return wrong(format!(
                "engine has {} bytes, level is {level}, vocab_size is {vocab_size}; \
                 expected 1 to 95 bytes, 0 to 4, at least 1",
                engine.len()
            ));
        }
        fs::create_dir(folder)?;
        Ok(Trace {
            folder: folder.into(),
            head: format!("{{\"format\": \"samebit-trace\", \"version\": 3, \"engine\": {}", quote(engine)),
            level,
            vocab_size,
            sequences: 0,
            steps: vec![],
            rows: vec![],
            rounds: vec![],
            states: vec![],
            prefixes: vec![],
            samplings: vec![],
            logits_rows: None,
            tensors: vec![],
        })
    }

    /// profile, arithmetic, checkpoint, note, rollback, drafter, functions or prefix.
    #[allow(dead_code)]
    pub fn head(&mut self, key: &str, value: &str) {
        self.head += &format!(", {}: {}", quote(key), quote(value));
    }

    /// The same for a number: delta_chunk or prefix_block.
    #[allow(dead_code)]
    pub fn head_number(&mut self, key: &str, value: u32) {
        self.head += &format!(", {}: {value}", quote(key));
    }

    pub fn sequence(&mut self, slot: Option<u32>) -> io::Result<Sequence> {
        if slot.is_none() && self.level >= 2 {
            return wrong(format!("level {}: sequence {} has no slot", self.level, self.sequences));
        }
        self.sequences += 1;
        let number = self.sequences - 1;
        Ok(Sequence { number, slot, position: 0, rounds: 0, drafted: 0, began: 0, call: 0, parent: None })
    }

    /// A sequence that begins with the state of `parent` after its first `position` tokens: a hit of the prefix
    /// cache. Feed it the tokens from there on.
    #[allow(dead_code)]
    pub fn continued(&mut self, parent: &Sequence, position: u64, slot: Option<u32>) -> io::Result<Sequence> {
        if position == 0 || position > parent.position {
            return wrong(format!(
                "sequence {} was fed {} tokens and cannot be continued at {position}",
                parent.number, parent.position
            ));
        }
        Ok(Sequence { position, parent: Some(parent.number), ..self.sequence(slot)? })
    }

    fn row(&mut self, s: &Sequence, position: u64, token: u32, kind: &str, round: bool) -> io::Result<()> {
        if token >= self.vocab_size {
            return wrong(format!("token id is {token}, expected an id below {}", self.vocab_size));
        }
        let slot = s.slot.map_or(String::new(), |slot| format!(", \"slot\": {slot}"));
        let round = if round { format!(", \"round\": {}", s.rounds) } else { String::new() };
        self.rows.push(format!(
            "{{\"sequence\": {}{slot}, \"position\": {position}, \"token\": {token}, \"kind\": \"{kind}\"{round}}}",
            s.number
        ));
        Ok(())
    }

    fn begin(&mut self, s: &mut Sequence) -> io::Result<()> {
        let call = self.steps.len() as u64 + 1;
        if s.call == call {
            return wrong(format!("sequence {} was fed twice in one call", s.number));
        }
        s.call = call;
        s.began = s.position;
        if let Some(parent) = s.parent.take() {
            self.prefixes.push(format!(
                "{{\"sequence\": {}, \"parent\": {parent}, \"position\": {}}}",
                s.number, s.position
            ));
        }
        Ok(())
    }

    /// Declares the sampler of a sequence that this call feeds, from its next token on: keys of docs/trace.md with
    /// their values as JSON, for example [("temperature", "0.8"), ("sampler", "\"vllm\"")].
    #[allow(dead_code)]
    pub fn sampling(&mut self, s: &Sequence, settings: &[(&str, &str)]) {
        let keys: String = settings.iter().map(|(key, value)| format!(", {}: {value}", quote(key))).collect();
        self.samplings.push(format!("{{\"sequence\": {}{keys}}}", s.number));
    }

    /// Feeds prompt tokens, all at once or in pieces.
    pub fn prompt(&mut self, s: &mut Sequence, tokens: &[u32]) -> io::Result<()> {
        self.begin(s)?;
        for &token in tokens {
            self.row(s, s.position, token, "prompt", false)?;
            s.position += 1;
        }
        Ok(())
    }

    /// Feeds the last generated token.
    pub fn decode(&mut self, s: &mut Sequence, token: u32) -> io::Result<()> {
        self.begin(s)?;
        self.row(s, s.position, token, "decode", false)?;
        s.position += 1;
        Ok(())
    }

    /// A speculative round: feeds the last emitted token and all drafts. `accepted` counts drafts, never the
    /// bonus token; `emitted` are the accepted drafts and the token after them.
    pub fn verify(
        &mut self,
        s: &mut Sequence,
        token: u32,
        drafts: &[u32],
        accepted: usize,
        emitted: &[u32],
    ) -> io::Result<()> {
        self.begin(s)?;
        if accepted > drafts.len() {
            return wrong(format!("accepted is {accepted}, expected 0 to {}, the number of drafts", drafts.len()));
        }
        for (i, &fed) in [token].iter().chain(drafts).enumerate() {
            self.row(s, s.position + i as u64, fed, "verify", true)?;
        }
        self.rounds.push(format!(
            "{{\"sequence\": {}, \"round\": {}, \"position\": {}, \"drafts\": {drafts:?}, \"accepted\": {accepted}, \
             \"emitted\": {emitted:?}}}",
            s.number, s.rounds, s.position
        ));
        s.position += 1 + accepted as u64;
        s.rounds += 1;
        s.drafted = 0;
        Ok(())
    }

    /// After verify(): the round's number of accepted drafts was forced, not decided by the model.
    #[allow(dead_code)]
    pub fn forced(&mut self) -> io::Result<()> {
        match self.rounds.last_mut() {
            Some(round) => {
                round.pop();
                *round += ", \"forced\": true}";
                Ok(())
            }
            None => wrong("forced() was called without verify() before it".into()),
        }
    }

    /// One step of the MTP head, in its own call: feed first the last emitted token, then the drafts.
    #[allow(dead_code)]
    pub fn draft(&mut self, s: &mut Sequence, token: u32) -> io::Result<()> {
        s.drafted += 1;
        self.row(s, s.position + s.drafted - 1, token, "draft", true)
    }

    /// The values of a tap; axis 0 is the rows of the call.
    pub fn tensor(&mut self, name: &str, shape: &[usize], data: Data) -> io::Result<()> {
        let (dtype, width, bytes) = data.plain();
        if bytes.len() != width * shape.iter().product::<usize>() {
            let expected = width * shape.iter().product::<usize>();
            return wrong(format!("{name} has {} bytes, expected {expected} for its shape {shape:?}", bytes.len()));
        }
        self.tensors.push(Tensor { name: name.into(), dtype, width, shape: shape.into(), bytes });
        Ok(())
    }

    /// Logits of all rows of the call, or of the given rows in ascending order.
    pub fn logits(&mut self, logits: Data, rows: Option<&[usize]>) -> io::Result<()> {
        let count = rows.map_or(self.rows.len(), |rows| rows.len());
        self.logits_rows = rows.map(|rows| rows.to_vec());
        self.tensor("logits", &[count, self.vocab_size as usize], logits)
    }

    /// The state before the call, which the call reads; its arrays follow with state_tensor().
    pub fn state(&mut self, s: &Sequence) {
        let at = if s.call == self.steps.len() as u64 + 1 { s.began } else { s.position };
        self.states.push(format!("{{\"sequence\": {}, \"position\": {at}}}", s.number));
    }

    pub fn state_tensor(&mut self, s: &Sequence, piece: &str, shape: &[usize], data: Data) -> io::Result<()> {
        self.tensor(&format!("state.{}.{piece}", s.number), shape, data)
    }

    fn write_tensors(&mut self) -> io::Result<()> {
        // wide types first, so that every array starts at a multiple of its element's size
        self.tensors.sort_by(|a, b| b.width.cmp(&a.width).then(a.name.cmp(&b.name)));
        let (mut header, mut at) = (String::from("{\"__metadata__\":{}"), 0);
        for t in &self.tensors {
            let shape = t.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
            header += &format!(
                ",{}:{{\"dtype\":\"{}\",\"shape\":[{shape}],\"data_offsets\":[{at},{}]}}",
                quote(&t.name),
                t.dtype,
                at + t.bytes.len()
            );
            at += t.bytes.len();
        }
        header += "}";
        header += &" ".repeat((8 - header.len() % 8) % 8);
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        for t in &self.tensors {
            bytes.extend(&t.bytes);
        }
        write_whole(&self.folder.join(format!("step-{:06}.safetensors", self.steps.len())), &bytes)
    }

    /// Ends the call and writes its arrays.
    pub fn end_call(&mut self) -> io::Result<()> {
        if !self.tensors.is_empty() {
            self.write_tensors()?;
        }
        let mut step = format!(
            "{{\"step\": {}, \"tensors\": {}, \"rows\": [{}]",
            self.steps.len(),
            self.tensors.len(),
            self.rows.join(", ")
        );
        if let Some(rows) = self.logits_rows.take() {
            step += &format!(", \"logits_rows\": {rows:?}");
        }
        let (rounds, states) = (&mut self.rounds, &mut self.states);
        let (prefixes, samplings) = (&mut self.prefixes, &mut self.samplings);
        let lists = [("rounds", rounds), ("states", states), ("prefixes", prefixes), ("sampling", samplings)];
        for (key, list) in lists {
            if !list.is_empty() {
                step += &format!(", \"{key}\": [{}]", list.join(", "));
                list.clear();
            }
        }
        self.steps.push(step + "}");
        self.rows.clear();
        self.tensors.clear();
        Ok(())
    }

    /// Writes trace.json at the end.
    pub fn finish(self) -> io::Result<()> {
        let text = format!(
            "{}, \"vocab_size\": {}, \"level\": {}, \"steps\": [{}]}}",
            self.head,
            self.vocab_size,
            self.level,
            self.steps.join(", ")
        );
        write_whole(&self.folder.join("trace.json"), text.as_bytes())
    }
}

// --- the example -------------------------------------------------------------------------------------------

const VOCAB: u32 = 384;
const HEADS: usize = 4;
const CHANNELS: usize = 512;
const PROMPT: [u32; 3] = [1, 2, 3];
const EMITTED: [u32; 5] = [127, 153, 16, 35, 116];

/// A file of NUMBERS, read in rows.
struct Numbers {
    values: Vec<f32>,
    width: usize,
    at: usize,
}

impl Numbers {
    fn open(path: &Path, width: usize) -> io::Result<Numbers> {
        let bytes = fs::read(path)?;
        let values = bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        Ok(Numbers { values, width, at: 0 })
    }

    fn take(&mut self, rows: usize) -> io::Result<&[f32]> {
        let first = self.at;
        self.at += rows * self.width;
        match self.values.get(first..self.at) {
            Some(values) => Ok(values),
            None => wrong("the file NUMBERS is too short".into()),
        }
    }
}

struct Engine {
    level: u8,
    logits: Numbers,
    g: Numbers,
    conv: Numbers,
}

impl Engine {
    /// Levels 0 and 1: plain decoding.
    fn plain_run(&mut self, trace: &mut Trace) -> io::Result<()> {
        let mut chat = trace.sequence(None)?;
        trace.prompt(&mut chat, &PROMPT)?;
        if self.level >= 1 {
            trace.logits(Data::F32(self.logits.take(1)?), Some(&[2]))?;
        }
        trace.end_call()?;
        for &token in &EMITTED[..3] {
            trace.decode(&mut chat, token)?;
            if self.level >= 1 {
                trace.logits(Data::F32(self.logits.take(1)?), None)?;
            }
            trace.end_call()?;
        }
        Ok(())
    }

    /// Writes the tap and the state, and ends the call.
    fn seen(&mut self, trace: &mut Trace, chat: &Sequence, rows: usize) -> io::Result<()> {
        if self.level >= 3 {
            trace.state(chat);
            if chat.began > 0 || rows == 0 {
                let window = Data::F32(self.conv.take(3)?);
                trace.state_tensor(chat, "layers.0.linear_attn.conv_state", &[3, CHANNELS], window)?;
            }
        }
        if self.level >= 4 && rows > 0 {
            trace.tensor("layers.0.linear_attn.g", &[rows, HEADS], Data::F32(self.g.take(rows)?))?;
        }
        trace.end_call()
    }

    /// From level 2 on: rounds of one draft, states before each call, a tap.
    fn run_in_rounds(&mut self, trace: &mut Trace) -> io::Result<()> {
        let mut chat = trace.sequence(Some(0))?;
        trace.prompt(&mut chat, &PROMPT)?;
        trace.logits(Data::F32(self.logits.take(1)?), Some(&[2]))?;
        self.seen(trace, &chat, 3)?;
        for i in [0, 2] {
            // the draft is right in both rounds
            trace.verify(&mut chat, EMITTED[i], &EMITTED[i + 1..i + 2], 1, &EMITTED[i + 1..i + 3])?;
            trace.logits(Data::F32(self.logits.take(2)?), None)?;
            self.seen(trace, &chat, 2)?;
        }
        if self.level >= 3 {
            self.seen(trace, &chat, 0)?; // a call without rows: the state after the last round
        }
        Ok(())
    }
}

fn main() -> io::Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.len() != 4 {
        return wrong("usage: trace_example OUT LEVEL NUMBERS".into());
    }
    let (level, folder) = (args[2].parse().unwrap_or(255), Path::new(&args[3]));
    let mut engine = Engine {
        level,
        logits: Numbers::open(&folder.join("logits.f32"), VOCAB as usize)?,
        g: Numbers::open(&folder.join("g.f32"), HEADS)?,
        conv: Numbers::open(&folder.join("conv_state.f32"), CHANNELS)?,
    };
    let mut trace = Trace::create(Path::new(&args[1]), "mine 1.0", VOCAB, level)?;
    if level < 2 {
        engine.plain_run(&mut trace)?;
    } else {
        engine.run_in_rounds(&mut trace)?;
    }
    trace.finish()
}
