//! RDS
