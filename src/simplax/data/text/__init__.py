"""Text and other sequences of categories: read, tokenised, packed or padded, stored and served."""

from __future__ import annotations

from simplax.data.text.labels import Label as Label
from simplax.data.text.lengths import Lengths as Lengths
from simplax.data.text.lengths import attend_through_end as attend_through_end
from simplax.data.text.lengths import attend_to as attend_to
from simplax.data.text.lengths import cut_all as cut_all
from simplax.data.text.lengths import has_interior_end as has_interior_end
from simplax.data.text.lengths import lengths_before_end as lengths_before_end
from simplax.data.text.options import Options as Options
from simplax.data.text.order import shuffled as shuffled
from simplax.data.text.prepare import Part as Part
from simplax.data.text.prepare import prepare as prepare
from simplax.data.text.prepare import prepare_part as prepare_part
from simplax.data.text.prepared import Prepared as Prepared
from simplax.data.text.source import SyntheticSource as SyntheticSource
from simplax.data.text.source import TextSource as TextSource
from simplax.data.text.sources import CORPORA as CORPORA
from simplax.data.text.tokenizers import Characters as Characters
from simplax.data.text.tokenizers import Tokenizer as Tokenizer
from simplax.data.text.tokenizers import load_tokenizer as load_tokenizer
