//! The rows of the report and their forms.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::differences::Aspect;
use crate::model::ObjectRef;

/// The columns of the table.
const TITLES: [&str; 7] = [
    "INGRESS",
    "HOST AND PATH",
    "DIFFERS IN",
    "REQUEST",
    "INGRESS-NGINX",
    "ISTHMUS",
    "DO",
];

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) ingress: ObjectRef,
    pub(super) place: String,
    pub(super) host: String,
    pub(super) path: String,
    pub(super) aspect: Aspect,
    /// What is written wrong, for the aspect annotation.
    pub(super) key: String,
    pub(super) request: String,
    pub(super) nginx: String,
    pub(super) ours: String,
    pub(super) remedy: String,
}

/// All differences.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) rows: Vec<Row>,
    pub(super) ingresses: usize,
    /// Ingresses about which something would still have to be said under the semantics of ingress-nginx.
    pub(super) left: usize,
}

impl Report {
    /// A line that says how much there is.
    fn summary(&self) -> String {
        let (differ, unsupported) = self.counts();
        let identical = self.ingresses - self.with_rows();
        format!(
            "{} Ingresses: {identical} identical, {differ} differ, {unsupported} annotations to look at; with --annotation-semantics ingress-nginx: {} identical, {} with annotations to look at",
            self.ingresses,
            self.ingresses - self.left,
            self.left
        )
    }

    /// Ingresses that behave otherwise, and annotations that are not understood.
    fn counts(&self) -> (usize, usize) {
        let is_annotation = |row: &&Row| row.aspect == Aspect::Annotation;
        let differ: BTreeSet<_> = self
            .rows
            .iter()
            .filter(|row| !is_annotation(row))
            .map(|row| &row.ingress)
            .collect();
        (differ.len(), self.rows.iter().filter(is_annotation).count())
    }

    fn with_rows(&self) -> usize {
        let all: BTreeSet<_> = self.rows.iter().map(|row| &row.ingress).collect();
        all.len()
    }

    /// An aligned table, notes and the summary.
    pub(super) fn text(&self) -> String {
        let mut notes = Notes::default();
        let mut table: Vec<[String; 7]> = Vec::new();
        if !self.rows.is_empty() {
            table.push(TITLES.map(str::to_owned));
        }
        for row in &self.rows {
            let number = notes.number(&row.remedy);
            table.push(row.cells(number));
        }
        let mut text = aligned(&table);
        if !notes.texts.is_empty() {
            text.push('\n');
            for (index, note) in notes.texts.iter().enumerate() {
                // Writing to a String cannot fail.
                _ = writeln!(text, "[{}] {note}", index + 1);
            }
            text.push('\n');
        }
        text + &self.summary() + "\n"
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let (differ, annotations) = self.counts();
        let rows = self.rows.iter().map(|row| {
            json!({
                "ingress": format!("{}/{}", row.ingress.namespace, row.ingress.name),
                "place": row.place,
                "host": row.host,
                "path": row.path,
                "differsIn": row.aspect.as_str(),
                "annotation": row.key,
                "request": row.request,
                "ingressNginx": row.nginx,
                "isthmus": row.ours,
                "do": row.remedy,
            })
        });
        json!({
            "differences": rows.collect::<Vec<_>>(),
            "summary": {
                "ingresses": self.ingresses,
                "identical": self.ingresses - self.with_rows(),
                "differ": differ,
                "annotations": annotations,
                "withIngressNginxSemantics": {"identical": self.ingresses - self.left, "annotations": self.left},
            },
        })
    }
}

impl Row {
    /// The columns, with the number of the note that says what to do.
    fn cells(&self, note: usize) -> [String; 7] {
        let ObjectRef {
            namespace, name, ..
        } = &self.ingress;
        let place = match self.place.as_str() {
            "" => String::new(),
            place => format!(" ({place})"),
        };
        let aspect = match self.key.as_str() {
            "" => self.aspect.as_str(),
            key => key,
        };
        [
            format!("{namespace}/{name}{place}"),
            format!("{}{}", self.host, self.path),
            aspect.to_owned(),
            self.request.clone(),
            self.nginx.clone(),
            self.ours.clone(),
            format!("[{note}]"),
        ]
    }
}

/// Texts below the table, each once.
#[derive(Default)]
struct Notes<'a> {
    texts: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Notes<'a> {
    /// The number of a text, from 1.
    fn number(&mut self, text: &'a str) -> usize {
        let next = self.texts.len() + 1;
        let number = *self.numbers.entry(text).or_insert(next);
        if number == next {
            self.texts.push(text);
        }
        number
    }
}

/// Rows with columns of the same width, two spaces between them.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            _ = write!(line, "{cell:<width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
