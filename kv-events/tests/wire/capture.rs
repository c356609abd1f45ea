//! Reading the capture files: frames from `.bin`, and what was published from `.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;

/// One recorded stream.
pub(crate) struct Capture {
    pub(crate) name: String,
    pub(crate) messages: Vec<Recorded>,
    /// The `.json` beside it.
    pub(crate) told: Value,
}

/// One ZeroMQ message as its receiver saw it.
pub(crate) struct Recorded {
    pub(crate) kind: String,
    pub(crate) socket: String,
    pub(crate) port: u64,
    pub(crate) frames: Vec<Vec<u8>>,
}

impl Capture {
    pub(crate) fn live(&self) -> impl Iterator<Item = &Recorded> {
        self.messages.iter().filter(|message| message.kind == "live")
    }
}

/// The captures of the collection that the repository's are copied from, where it is there, else the repository's own.
pub(crate) fn all() -> &'static [Capture] {
    &CAPTURES
}

/// The one capture whose name starts so.
pub(crate) fn named(start: &str) -> &'static Capture {
    all().iter().find(|capture| capture.name.starts_with(start)).unwrap_or_else(|| panic!("no capture {start}"))
}

static CAPTURES: LazyLock<Vec<Capture>> = LazyLock::new(|| {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/captures");
    let captures = collection().map_or_else(
        || {
            println!("skipped: no shared/data/captures above the repository, so only its own copies are tested");
            read_folder(&own)
        },
        |folder| read_folder(&folder),
    );
    assert!(captures.len() >= 40, "{} captures", captures.len());
    captures
});

fn collection() -> Option<PathBuf> {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|above| above.join("shared/data/captures"))
        .find(|folder| folder.is_dir())
}

fn read_folder(folder: &Path) -> Vec<Capture> {
    let entries = fs::read_dir(folder).expect("a folder of captures").map(|entry| entry.expect("an entry").path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|extension| extension == "bin")).collect();
    files.sort();
    files.iter().map(|path| read_capture(path)).collect()
}

fn read_capture(path: &Path) -> Capture {
    let lines = fs::read_to_string(path).expect("a capture");
    let told = fs::read(path.with_extension("json")).expect("what was published");
    Capture {
        name: path.file_stem().expect("a name").to_string_lossy().into_owned(),
        messages: lines.lines().skip(1).map(read_message).collect(),
        told: serde_json::from_slice(&told).expect("JSON"),
    }
}

fn read_message(line: &str) -> Recorded {
    let line: Value = serde_json::from_str(line).expect("JSON");
    let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
    let frames = line["frames"].as_array().expect("frames").iter();
    Recorded {
        kind: text("kind"),
        socket: text("socket"),
        port: line["port"].as_u64().unwrap_or_default(),
        frames: frames.map(|frame| from_hex(frame.as_str().expect("hex"))).collect(),
    }
}

pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits")).collect()
}
