//! Blocks of loopback ports that no other run uses.
//!
//! The programs under test take their ports as flags, so a port must be known before the program binds it. A block is
//! claimed by binding its first port for as long as the block lives; other runs, also in other processes, then pass it by.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port that is handed out: above the backends of the cases, below the usual range of client ports.
const FIRST: u16 = 24_000;
/// End of the range.
const END: u16 = 32_000;
/// Ports of a block, the guard included.
const BLOCK: u16 = 16;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A claimed block of ports; it is free again when dropped.
#[derive(Debug)]
pub struct PortBlock {
    base: u16,
    _guard: TcpListener,
}

impl PortBlock {
    /// Claims a block whose ports are all free at the moment.
    ///
    /// # Errors
    /// No block of the range is free.
    pub fn claim() -> io::Result<Self> {
        let blocks = (END - FIRST) / BLOCK;
        let start = (std::process::id() % u32::from(blocks)) as u16;
        for _ in 0..blocks {
            let turn = NEXT.fetch_add(1, Ordering::Relaxed) % blocks;
            let base = FIRST + (start + turn) % blocks * BLOCK;
            let Ok(guard) = TcpListener::bind((Ipv4Addr::LOCALHOST, base)) else {
                continue;
            };
            if (1..BLOCK)
                .all(|offset| TcpListener::bind((Ipv4Addr::UNSPECIFIED, base + offset)).is_ok())
            {
                return Ok(Self {
                    base,
                    _guard: guard,
                });
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            format!("no block of {BLOCK} free ports in {FIRST}-{END}"),
        ))
    }

    /// The port number `index`, counted from 0.
    pub fn port(&self, index: u16) -> u16 {
        assert!(index < BLOCK - 1, "a block has {} ports", BLOCK - 1);
        self.base + 1 + index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_do_not_overlap() {
        let (a, b) = (PortBlock::claim().unwrap(), PortBlock::claim().unwrap());
        assert!(a.base.abs_diff(b.base) >= BLOCK);
    }
}
