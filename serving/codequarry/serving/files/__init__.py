"""Operations on the files of a version: integrity, leases, free space, compatibility."""
