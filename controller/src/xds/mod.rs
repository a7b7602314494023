//! The last output, encoded, and its MCP-over-xDS server side.

mod source;
mod store;

pub use source::{McpSource, TYPES};
pub use store::{ConfigMaps, OutputStore};
