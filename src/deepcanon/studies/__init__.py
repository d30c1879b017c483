"""Studies, one per file: experiments that train many times, or measure what training does."""
